package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"rollcall.training/injectors"
	"rollcall.training/internal/policy"
)

const policyPageIntro = `A policy file has one document with the type ~GangPolicy~. The type is not an API of the
cluster. Unknown fields are errors. [Limit gangs](../tasks/limit-gangs.md) explains the file by
examples.

A duration has a unit, such as ~90m~ or ~72h~. A mode is ~enforce~, ~warn~, ~audit~ or ~off~.

`

// TestPolicyPage generates the reference page of the policy file from the types and their comments.
func TestPolicyPage(t *testing.T) {
	comments := readComments(t, "../internal/policy")
	var page strings.Builder
	page.WriteString("# Policy file\n\n" + generatedNotice + strings.ReplaceAll(policyPageIntro, "~", "`"))
	pending, done := []reflect.Type{reflect.TypeFor[policy.File]()}, map[reflect.Type]bool{}
	for len(pending) > 0 {
		current := pending[0]
		pending = pending[1:]
		if done[current] {
			continue
		}
		done[current] = true
		rows, nested := formatPolicyFields(t, current, comments)
		fmt.Fprintf(&page, "## %s\n\n%s\n\n", current.Name(), comments.describe(current.Name(), ""))
		if rows == "" {
			continue
		}
		page.WriteString("| field | type | meaning |\n|---|---|---|\n" + rows + "\n")
		pending = append(pending, nested...)
	}
	page.WriteString(formatCELFields())
	checkPage(t, "reference/policy.md", []byte(strings.TrimRight(page.String(), "\n")+"\n"))
}

// formatCELFields returns the section about the variables of rules.
func formatCELFields() string {
	var out strings.Builder
	out.WriteString("## Variables of rules\n\n" +
		"Expressions have the dialect of ValidatingAdmissionPolicies. `object` is the workload, and `namespaceObject` has\n" +
		"`metadata.name` and `metadata.labels` of its namespace. `gang` has these fields:\n\n" +
		"| field | type | optional |\n|---|---|---|\n")
	for _, f := range policy.GangFields() {
		optional := ""
		if f.Optional {
			optional = "yes; ask with `has`"
		}
		fmt.Fprintf(&out, "| `gang.%s` | %s | %s |\n", f.Name, f.Type, optional)
	}
	return out.String()
}

// typeComments are the comments of types and fields, by type or by type and field.
type typeComments map[string]string

// readComments returns the comments of the types of a package.
func readComments(t *testing.T, directory string) typeComments {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	comments := typeComments{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range general.Specs {
				comments.add(general, spec)
			}
		}
	}
	return comments
}

func (c typeComments) add(declaration *ast.GenDecl, spec ast.Spec) {
	typeSpec, ok := spec.(*ast.TypeSpec)
	if !ok {
		return
	}
	doc := typeSpec.Doc
	if doc == nil {
		doc = declaration.Doc
	}
	c[typeSpec.Name.Name] = doc.Text()
	structType, ok := typeSpec.Type.(*ast.StructType)
	if !ok {
		return
	}
	text := ""
	for _, field := range structType.Fields.List {
		if field.Doc != nil {
			text = field.Doc.Text() // one comment can describe several fields
		}
		for _, name := range field.Names {
			c[typeSpec.Name.Name+"."+name.Name] = text
		}
	}
}

// nameOfGo replaces names of Go by what a policy file contains.
var nameOfGo = strings.NewReplacer("`APIVersion`", "`"+policy.APIVersion+"`", "`Kind`", "`"+policy.Kind+"`",
	"`ModeEnforce`", "`enforce`", "`ModeWarn`", "`warn`", "`ModeAudit`", "`audit`", "`ModeOff`", "`off`",
	"If Namespaces is", "If `namespaces` is", "those of Allow", "those of `allow`",
	"those of Cluster", "those of `cluster`",
	"Min and Max are inclusive", "inclusive", "Max is inclusive", "inclusive",
	" `Read` returns it inside of a `Policy`.", "")

var (
	linkPattern  = regexp.MustCompile(`\[([A-Za-z.]+)\]`)
	spacePattern = regexp.MustCompile(`\s+`)
)

// describe returns the comment of a type or of a field in one line, without the syntax of Go.
func (c typeComments) describe(typeName, field string) string {
	key := typeName
	if field != "" {
		key += "." + field
	}
	text := spacePattern.ReplaceAllString(strings.TrimSpace(c[key]), " ")
	text = linkPattern.ReplaceAllString(text, "`$1`")
	text = nameOfGo.Replace(text)
	text = strings.TrimPrefix(text, field+" ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "is "), "are ")
	if word, _, _ := strings.Cut(text, " "); field != "" && !strings.Contains(word, ".") { // not the path of a field
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return strings.ReplaceAll(text, "|", "\\|")
}

// formatPolicyFields returns the rows of a struct and the types of its fields that have own sections.
func formatPolicyFields(t *testing.T, of reflect.Type, comments typeComments) (rows string, nested []reflect.Type) {
	t.Helper()
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			more, types := formatPolicyFields(t, field.Type, comments)
			rows, nested = rows+more, append(nested, types...)
			continue
		}
		if !field.IsExported() || name == "" || name == "-" {
			continue
		}
		text, element := describeFieldType(field.Type)
		if element != nil {
			nested = append(nested, element)
		}
		meaning := comments.describe(of.Name(), field.Name)
		if meaning == "" {
			t.Errorf("%s.%s has no comment", of.Name(), field.Name)
		}
		rows += fmt.Sprintf("| `%s` | %s | %s |\n", name, text, meaning)
	}
	return rows, nested
}

// describeFieldType returns the type of a field for readers, and the type with an own section if there is one.
func describeFieldType(of reflect.Type) (string, reflect.Type) {
	switch {
	case of.Kind() == reflect.Pointer:
		return describeFieldType(of.Elem())
	case strings.HasPrefix(of.Name(), "DefaultValue["):
		field, _ := of.FieldByName("Value")
		text, _ := describeFieldType(field.Type)
		return text + ", or `{value, locked}`", nil
	case of == reflect.TypeFor[policy.Duration]():
		return "duration", nil
	case of == reflect.TypeFor[policy.Mode]():
		return "mode", nil
	case of == reflect.TypeFor[corev1.Toleration]():
		return "toleration of Kubernetes", nil
	case of.Kind() == reflect.Slice:
		text, element := describeFieldType(of.Elem())
		return "list of " + text, element
	case of.Kind() == reflect.Map:
		text, element := describeFieldType(of.Elem())
		return "map to " + text, element
	case of.Kind() == reflect.Struct && strings.HasSuffix(of.PkgPath(), "internal/policy"):
		return "[" + of.Name() + "](#" + strings.ToLower(of.Name()) + ")", of
	case of.Kind() == reflect.Struct:
		return "label selector of Kubernetes", nil
	case of.Kind() == reflect.Int64:
		return "number", nil
	case of.Kind() == reflect.Bool:
		return "boolean", nil
	}
	return "text", nil
}

// policyBlockPattern matches the YAML examples of a page.
var policyBlockPattern = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestPolicyExamples verifies that the policies in the pages are valid.
func TestPolicyExamples(t *testing.T) {
	const header = "apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\n"
	for _, path := range []string{"tasks/limit-gangs.md", "tasks/first-policy.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checked := 0
		for _, block := range policyBlockPattern.FindAllStringSubmatch(string(text), -1) {
			example := block[1]
			switch {
			case strings.HasPrefix(example, "exemptions:"), strings.Contains(example, "kind: GangPolicyTest"),
				strings.Contains(example, "kind: Job"):
				continue // an exemption needs the rule of another example
			case !strings.Contains(example, "apiVersion:"):
				example = header + example
			}
			checked++
			if p, problems := policy.Read(path, []byte(example), injectors.Builtin().Frameworks()); p == nil {
				t.Errorf("%v in:\n%s", problems, example)
			}
		}
		if checked == 0 {
			t.Errorf("%s has no policy", path)
		}
	}
}
