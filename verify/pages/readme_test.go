package pages_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/history"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// Each block of Go in README.md and docs stands, to the letter, in a test that runs: so it
// compiles, and does what it says. Where it needs client-go, that test is in the nested module.
func TestREADME(t *testing.T) {
	t.Chdir("../..")
	tests := glob(t, "*_test.go", "verify/*/*_test.go", "lwdebug/*_test.go", "serve/*_test.go", "clientgo/*_test.go",
		"controllerruntime/*_test.go", "websocket/*_test.go", "simulate/*_test.go", "etcd/e2e/*_test.go",
		"verify/e2e/kubetest/*_test.go")
	blocks := 0
	for _, page := range glob(t, "docs/*.md", "README.md") {
		for _, b := range goBlocks(t, page) {
			blocks++
			if !slices.ContainsFunc(tests, func(file string) bool { return runs(t, file, b) }) {
				t.Errorf("%s: this stands in no test:\n%s", page, strings.Join(b, "\n"))
			}
		}
	}
	if blocks < 3 {
		t.Errorf("%d blocks, want those of README.md", blocks)
	}
}

var fence = regexp.MustCompile("(?ms)^ *```+ *(\\w*)([^\n]*)\n(.*?)^ *```+ *$")

// goBlocks returns the lines of each block of Go in a page.
func goBlocks(t *testing.T, page string) (blocks [][]string) {
	t.Helper()
	for _, m := range fence.FindAllStringSubmatch(read(t, page), -1) {
		if m[1] == "go" || m[1] == "golang" {
			blocks = append(blocks, bare(strings.TrimSpace(m[3])))
		}
	}
	return blocks
}

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	return string(rig.Must[[]byte](t)(os.ReadFile(path)))
}

// glob returns the files of all patterns, each of which has some.
func glob(t *testing.T, patterns ...string) (paths []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// bare returns the lines of text without the white space that goes with where they stand.
func bare(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// runs reports whether block stands in the body of a test or an example of file.
func runs(t *testing.T, file string, block []string) bool {
	t.Helper()
	source := read(t, file)
	lines := bare(source)
	var at []int
	for i := range len(lines) - len(block) {
		if slices.Equal(lines[i:i+len(block)], block) {
			at = append(at, i+1)
		}
	}
	if at == nil {
		return false
	}
	set := token.NewFileSet()
	f := rig.Must[*ast.File](t)(parser.ParseFile(set, file, source, parser.SkipObjectResolution))
	return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "Test") && !strings.HasPrefix(f.Name.Name, "Example") {
			return false
		}
		from, to := set.Position(f.Body.Lbrace).Line, set.Position(f.Body.Rbrace).Line
		return slices.ContainsFunc(at, func(line int) bool { return from < line && line+len(block) <= to })
	})
}

// That a block is missed where it does not stand, or does not run, is seen here.
func TestREADMEIsRead(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		rig.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	blocks := goBlocks(t, write("page.md", "x\n```go\na := 1\n\tb := a\n```\ny\n```\nno()\n```\n  ```golang title\n  c()\n  ```\n"))
	rig.Same(t, "blocks", [][]string{{"a := 1", "b := a"}, {"c()"}}, blocks)
	const head = "package p\n\n"
	for source, want := range map[string]bool{
		head + "func TestX() {\n\tif x {\n\t\ta := 1\n\t\tb := a\n\t}\n}\n": true,
		head + "func ExampleX() {\n\ta := 1\n\tb := a\n}\n":                 true,
		head + "func helper() {\n\ta := 1\n\tb := a\n}\n":                   false,
		head + "func TestX() {\n\ta := 1\n\n\tb := a\n}\n":                  false,
		head + "func TestX() {\n\ta := 1\n}\n":                              false,
		head + "func TestX() {}\n\n/*\na := 1\nb := a\n*/\n":                false,
	} {
		rig.Same(t, source, want, runs(t, write("x_test.go", source), []string{"a := 1", "b := a"}))
	}
}

func TestREADMEWithoutAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sprocketServer := lwtest.NewServer(t, lwtest.Resource{Group: "example.com", Plural: "sprockets", Kind: "Sprocket"})
		rig.Must[*Sprocket](t)(lwtest.Objects[*Sprocket](sprocketServer, "sprockets").Create(newSprocket("door")))
		client := sprocketServer.Client()
		client.Transport = anyHost{client.Transport}
		// From here on as in docs/start.md.
		sprockets := lw.NewInformer(&lw.HTTP[*Sprocket]{
			URL:    "https://example.com/apis/example.com/v1/sprockets",
			Client: client, // of rest.HTTPClientFor(config), or any
		}, nil)
		server := lw.NewMemory(&Widget{Meta: lw.Meta{Namespace: "default", Name: "a"}, Size: 1})
		widgets := lw.NewInformer(server, nil)
		rig.Start(t, widgets)
		rig.Start(t, sprockets)
		if err := lw.WaitForSync(t.Context(), sprockets, widgets); err != nil || sprockets.Store().Len() != 1 || widgets.Store().Len() != 1 {
			t.Errorf("%d sprockets, %d widgets, error %v", sprockets.Store().Len(), widgets.Store().Len(), err)
		}
	})
}

func newSprocket(name string) *Sprocket {
	s := &Sprocket{}
	s.Namespace, s.Name = "default", name
	return s
}

// anyHost sends all requests to the one server that there is.
type anyHost struct{ http.RoundTripper }

func (a anyHost) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", "apiserver"
	return a.RoundTripper.RoundTrip(r)
}

// pages returns the texts of the Markdown files of the repository, but for those of tools.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, path := range glob(t, "*.md", ".github/*.md", "docs/*.md", "verify/e2e/*.md", "examples/*.md", "bench/results/*.md",
		"internal/verify/proof/*.md", "clientgo/histories/*.md") {
		texts[path] = read(t, path)
	}
	return texts
}

// files returns the paths of all files of the repository.
func files(t *testing.T) (paths []string) {
	t.Helper()
	rig.OK(t, filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		paths = append(paths, filepath.ToSlash(path))
		return err
	}))
	return paths
}

var (
	linkTo   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan = regexp.MustCompile("`[^`\n]*`")
	heading  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	unlinked = regexp.MustCompile(`[^\w\- ]`)
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)`")
	function = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// The links of the pages lead to files and headings that exist.
func TestLinks(t *testing.T) {
	t.Chdir("../..")
	for page, text := range pages(t) {
		for _, m := range linkTo.FindAllStringSubmatch(codeSpan.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			path := page
			if file != "" {
				path = filepath.Join(filepath.Dir(page), file)
			}
			target, err := os.ReadFile(path)
			if _, missing := os.Stat(path); missing != nil {
				t.Errorf("%s: %s leads to nothing", page, m[1])
			} else if anchor != "" && (err != nil || !slices.Contains(anchors(string(target)), anchor)) {
				t.Errorf("%s: %s has no heading #%s", page, path, anchor)
			}
		}
	}
}

// anchors returns what the headings of a page are linked by.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}

var fileName = regexp.MustCompile("`([\\w.*/-]+\\.(?:go|md|svg|png|json|html))`")

// The files that the pages name exist, but for those of other projects and patterns of names.
func TestPagesNameFiles(t *testing.T) {
	t.Chdir("../..")
	others := []string{"object/informer.go", "object/object.go", "internal/store/builder.go", "x_test.go", "x_topic_test.go"}
	exist, named := files(t), 0
	for page, text := range pages(t) {
		for _, m := range fileName.FindAllStringSubmatch(text, -1) {
			name := regexp.MustCompile("(^|/)" + strings.ReplaceAll(regexp.QuoteMeta(m[1]), `\*`, "[^/]*") + "$")
			if named++; !slices.Contains(others, m[1]) && !slices.ContainsFunc(exist, name.MatchString) {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("the pages name %d files", named)
	}
}

// The tests that the pages and doc.go name exist.
func TestPagesNameTests(t *testing.T) {
	t.Chdir("../..")
	exist := map[string]bool{}
	for _, path := range files(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range function.FindAllStringSubmatch(read(t, path), -1) {
			exist[m[1]] = true
		}
	}
	mustExist := func(page string, named [][]string) {
		for _, m := range named {
			if !exist[m[1]] {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	for page, text := range pages(t) {
		mustExist(page, testName.FindAllStringSubmatch(text, -1))
	}
	named := regexp.MustCompile(`(?:\(|, )(Test\w+)`).FindAllStringSubmatch(read(t, "doc.go"), -1)
	mustExist("doc.go", named)
	if len(named) < 15 {
		t.Errorf("doc.go names %d tests, want one for each point of the contract", len(named))
	}
}

// A program that imports lw builds apimachinery, and nothing of the tests, of client-go or of
// k8s.io/api.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/go-lw/lw").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	packages := strings.Fields(string(out))
	in := func(path string) bool {
		return slices.ContainsFunc(packages, func(p string) bool { return p == path || strings.HasPrefix(p, path+"/") })
	}
	for _, want := range []string{"github.com/go-lw/lw", "k8s.io/apimachinery"} {
		if !in(want) {
			t.Errorf("%s is not in the build", want)
		}
	}
	for _, no := range []string{
		"html/template", "text/template", "expvar", "net/http/pprof",
		"golang.org/x/sync", "golang.org/x/tools", "pgregory.net/rapid", "github.com/google/go-cmp", "testing", "k8s.io/client-go", "k8s.io/api", "k8s.io/apiserver",
		"github.com/go-lw/lw/lwtest", "github.com/go-lw/lw/internal/apiserver", "github.com/go-lw/lw/internal/registry",
		"gopkg.in/evanphx/json-patch.v4", "sigs.k8s.io/structured-merge-diff/v6/typed", "sigs.k8s.io/structured-merge-diff/v6/merge", "k8s.io/kube-openapi/pkg/util/proto", "k8s.io/apimachinery/pkg/util/managedfields",
		"github.com/go-lw/lw/internal/verify/oracle",
	} {
		if in(no) {
			t.Errorf("%s is in the build", no)
		}
	}
}

// The tool that needs x/tools is a module of its own, so no program that imports lw downloads it.
func TestNoTools(t *testing.T) {
	mod := read(t, "../../go.mod")
	if strings.Contains(mod, "golang.org/x/tools") || !strings.Contains(mod, "module github.com/go-lw/lw\n") {
		t.Errorf("go.mod of the root is\n%s", mod)
	}
}

func TestMain(m *testing.M) {
	history.FromOne = true // tests name the versions of a Memory
	leak.Main(m)
}
