package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"time"
)

// File is a file in an archive, a layer or a chart.
type File struct {
	// Name is the path with slashes, without a leading slash.
	Name string
	// Executable is true for programs.
	Executable bool
	// Content is the content of the file.
	Content []byte
}

func (f File) mode() int64 {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// writeTar returns an uncompressed tar of the files in their order. All of them belong to root and have
// the same time.
func writeTar(files []File, modified time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.Name,
			Mode:     f.mode(),
			Size:     int64(len(f.Content)),
			ModTime:  modified,
			Format:   tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.Name, err)
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("completing an archive: %w", err)
	}
	return buffer.Bytes(), nil
}

// writeTarGzip returns a compressed tar of the files. See writeTar.
func writeTarGzip(files []File, modified time.Time) ([]byte, error) {
	content, err := writeTar(files, modified)
	if err != nil {
		return nil, err
	}
	var buffer bytes.Buffer
	w, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("compressing an archive: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("compressing an archive: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing an archive: %w", err)
	}
	return buffer.Bytes(), nil
}

// writeZip returns a zip of the files, for Windows.
func writeZip(files []File, modified time.Time) ([]byte, error) {
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	for _, f := range files {
		content, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: modified})
		if err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.Name, err)
		}
		if _, err := content.Write(f.Content); err != nil {
			return nil, fmt.Errorf("archiving %s: %w", f.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("completing an archive: %w", err)
	}
	return buffer.Bytes(), nil
}
