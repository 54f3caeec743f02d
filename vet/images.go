package vet

import "strings"

func ofImages() []Check {
	return []Check{{
		Code: CodeFloatingImage, Severity: Advice, gang: floatingImage,
		Title: "The image of a gang of several pods has no fixed tag",
		Why:   "Each node pulls what the tag means at that moment, or uses what it pulled before. So ranks of one gang, or a gang before and after a restart, can run different programs.",
		Fix:   "Name a tag that does not move, or a digest.",
	}}
}

func floatingImage(_ *input, m *member) []remark {
	if !m.several() {
		return nil
	}
	var out []remark
	for _, c := range m.trainers() {
		if c.Image == "" || strings.Contains(c.Image, "@") {
			continue
		}
		// A colon before the last slash is that of a registry's port.
		_, tag, ok := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
		if !ok || tag == "latest" {
			out = append(out, say(c.path+".image", "%s can mean another program on each node", c.Image).do("name a tag that does not move, or a digest")...)
		}
	}
	return out
}
