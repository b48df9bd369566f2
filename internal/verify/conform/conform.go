// Package conform is a table of writes and of what kube-apiserver answers. Tests play it against
// each server that takes writes.
//
// A line is a request, " => ", and what is expected: the status, or several of which one must be
// answered, the reason of a Status, members of the answer, and after " ~ " a part of the message.
//
//	PATCH widgets/a?fieldManager=m @merge {"spec":{"x":1}} => 200 spec.x=1 metadata.labels=
//
// A path is that of a resource in the namespace of the section, unless it begins with a slash. The
// format of the body follows it; JSON is the default. <W a> is the beginning of a Widget up to the
// name in its metadata. $NS is the namespace, $UID and $RV are those of the object that was
// answered last. path=value compares a string, or the JSON of another value; path= says that there
// is none, path!=value that there is another one. warning= is about the header Warning.
package conform

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw/internal/registry"
)

//go:embed requests.txt
var requests string

// A Resource is what a server must serve for the table: example.io/v1 and, for pods, the core
// group.
type Resource struct {
	Plural, Kind    string
	Cluster, Status bool
	Scale           *registry.Scale
	// Typed says that the objects are Pods. All other kinds keep any field. An update of these must
	// have a version.
	Typed bool
}

// Resources are those of the table.
var Resources = []Resource{
	{Plural: "widgets", Kind: "Widget", Status: true, Scale: &registry.Scale{Replicas: ".spec.replicas",
		StatusReplicas: ".status.replicas", Selector: ".status.selector"}},
	{Plural: "gadgets", Kind: "Gadget"}, {Plural: "crowns", Kind: "Crown", Cluster: true},
	{Plural: "pods", Kind: "Pod", Typed: true},
}

// A Pod is what the table needs of one.
type Pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		NodeName   string      `json:"nodeName,omitempty"`
		Grace      *int64      `json:"terminationGracePeriodSeconds,omitempty"`
		Containers []Container `json:"containers" patchStrategy:"merge" patchMergeKey:"name"`
	} `json:"spec,omitempty"`
	Status struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitempty"`
}

// A Container is one of a Pod.
type Container struct {
	Name  string `json:"name"`
	Image string `json:"image,omitempty"`
	Ports []struct {
		ContainerPort int    `json:"containerPort"`
		Protocol      string `json:"protocol,omitempty"`
	} `json:"ports,omitempty" patchStrategy:"merge" patchMergeKey:"containerPort"`
}

// Marshal and Unmarshal have the server take protobuf, which here is JSON.
func (p *Pod) Marshal() ([]byte, error)    { return json.Marshal(p) }
func (p *Pod) Unmarshal(data []byte) error { return json.Unmarshal(data, p) }

// A Case is one line.
type Case struct {
	Own bool // a real server answers otherwise
	Pod bool // a whole kube-apiserver does, which has rules for Pods

	line                            int
	text                            string // the line
	method, path, contentType, body string
	codes, checks                   []string
	reason, message                 string
}

// A Section is lines that are played in their order.
type Section struct {
	Name  string
	Cases []Case
}

// Sections returns the table. It panics if it cannot be read, which a test of this package would
// show.
func Sections() []Section {
	var out []Section
	for i, line := range strings.Split(requests, "\n") {
		switch {
		case strings.HasPrefix(line, "## "):
			out = append(out, Section{Name: strings.TrimPrefix(line, "## ")})
		case line != "" && line[0] != '#':
			s := &out[len(out)-1]
			s.Cases = append(s.Cases, parse(line, i+1))
		}
	}
	return out
}

var formats = map[string]string{
	"": "application/json", "@yaml": "application/yaml", "@text": "text/plain", "@octet": "application/octet-stream",
	"@protobuf": "application/vnd.kubernetes.protobuf",
	"@charset":  "application/json; charset=utf-8", "@merge": "application/merge-patch+json",
	"@merge-charset": "application/merge-patch+json; charset=utf-8",
	"@json-patch":    "application/json-patch+json", "@strategic": "application/strategic-merge-patch+json",
	"@apply": "application/apply-patch+yaml",
}

func parse(line string, number int) Case {
	c := Case{line: number, text: line}
	line, c.Own = strings.CutPrefix(line, "lw: ")
	line, c.Pod = strings.CutPrefix(line, "pod: ")
	request, want, _ := strings.Cut(line, " =>")
	c.method, request, _ = strings.Cut(request, " ")
	c.path, c.body, _ = strings.Cut(request, " ")
	format := ""
	if strings.HasPrefix(c.body, "@") {
		format, c.body, _ = strings.Cut(c.body, " ")
		var query string
		if format, query, _ = strings.Cut(format, "?"); query != "" {
			c.path += "?" + query
		}
	}
	var ok bool
	if c.contentType, ok = formats[format]; !ok {
		panic(fmt.Sprintf("conform: line %d: the format %s", number, format))
	}
	want, c.message, _ = strings.Cut(want, " ~ ")
	for i, word := range checkWords.FindAllString(strings.TrimSpace(want), -1) {
		switch {
		case i == 0:
			c.codes = strings.Split(word, "|")
		case strings.Contains(word, "="):
			c.checks = append(c.checks, word)
		default:
			c.reason = word
		}
	}
	return c
}

// checkWords are what is expected: a warning may have spaces, and is the last.
var checkWords = regexp.MustCompile(`warning=.*|\S+`)

// An Answer is what a server has answered.
type Answer struct {
	Code    int
	Body    []byte
	Warning string // the headers Warning, joined
}

// A Server is where requests go.
type Server struct {
	Client *http.Client
	URL    string
}

func (s Server) ask(ctx context.Context, method, path, contentType, body string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := s.Client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, data, strings.Join(resp.Header["Warning"], "\n")}, err
}

// Play plays all sections against a server, but that of grace if there are no kubelets.
func Play(t testing.TB, server Server, kubelets bool) {
	played := 0
	for _, s := range Sections() {
		if s.Name != "grace" || kubelets {
			s.Play(t, server, s.Namespace())
			played += len(s.Cases)
		}
	}
	if played < 390 {
		t.Errorf("%d requests were made", played)
	}
}

// Namespace is a name for the namespace of a section.
func (s Section) Namespace() string { return strings.ReplaceAll(s.Name, " ", "-") }

// Play plays a section against a server. namespace is empty, and of the section alone. It returns
// how many answers are as expected.
func (s Section) Play(t testing.TB, server Server, namespace string) (right int) {
	vars := map[string]string{"NS": namespace}
	for _, c := range s.Cases {
		wrong := func(why string) { t.Errorf("requests.txt:%d: %s\n%s", c.line, c.text, why) }
		expand := func(text string) string { return expand(text, vars) }
		path := expand(c.path)
		if !strings.HasPrefix(path, "/") {
			path = root(path, namespace) + path
		}
		answer, err := server.ask(t.Context(), c.method, path, c.contentType, expand(c.body))
		if err != nil {
			wrong(err.Error())
			continue
		}
		var content any
		_ = json.Unmarshal(answer.Body, &content) // an answer that is no JSON has no members
		unlike := c.check(answer, content, expand)
		for _, why := range unlike {
			wrong(fmt.Sprintf("%s\n%d %s %s", why, answer.Code, answer.Body, answer.Warning))
		}
		if len(unlike) == 0 {
			right++
		}
		if version, ok := find(content, "metadata.resourceVersion"); ok && answer.Code < 300 {
			vars["RV"] = version
			vars["UID"], _ = find(content, "metadata.uid")
		}
	}
	return right
}

func root(path, namespace string) string {
	plural := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '?' })[0]
	for _, r := range Resources {
		switch {
		case r.Plural == plural && r.Typed:
			return "/api/v1/namespaces/" + namespace + "/"
		case r.Plural == plural && r.Cluster:
			return "/apis/example.io/v1/"
		}
	}
	return "/apis/example.io/v1/namespaces/" + namespace + "/"
}

var macro = regexp.MustCompile(`<([WGCP])( [^>]*)?>`)

func expand(text string, vars map[string]string) string {
	text = macro.ReplaceAllStringFunc(text, func(m string) string {
		kind := map[byte][2]string{'W': {"example.io/v1", "Widget"}, 'G': {"example.io/v1", "Gadget"},
			'C': {"example.io/v1", "Crown"}, 'P': {"v1", "Pod"}}[m[1]]
		out := fmt.Sprintf(`"apiVersion":%q,"kind":%q`, kind[0], kind[1])
		if name, ok := strings.CutPrefix(m[2:len(m)-1], " "); ok {
			out += fmt.Sprintf(`,"metadata":{"name":%q`, name)
		}
		return out
	})
	for name, value := range vars {
		text = strings.ReplaceAll(text, "$"+name, value)
	}
	return text
}

// check returns what is not as expected.
func (c *Case) check(a Answer, content any, expand func(string) string) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	code := false
	for _, want := range c.codes {
		code = code || want == strconv.Itoa(a.Code)
	}
	if !code {
		fail("the status is %d, want %s", a.Code, strings.Join(c.codes, " or "))
	}
	if reason, _ := find(content, "reason"); c.reason != "" && reason != c.reason {
		fail("the reason is %q, want %q", reason, c.reason)
	}
	if message, _ := find(content, "message"); !strings.Contains(message, expand(c.message)) {
		fail("the message does not say %q", expand(c.message))
	}
	for _, check := range c.checks {
		path, want, _ := strings.Cut(expand(check), "=")
		if path == "warning" {
			if (want == "") != (a.Warning == "") || !strings.Contains(strings.ReplaceAll(a.Warning, `\"`, `"`), want) {
				fail("the warning is %q, want %q", a.Warning, want)
			}
			continue
		}
		path, not := strings.CutSuffix(path, "!")
		got, _ := find(content, path)
		if (got == want) == not {
			fail("%s is %q, want %s", path, got, check)
		}
	}
	return wrong
}

// find returns the value at a path such as items.0.metadata.name.
func find(at any, path string) (string, bool) {
	for name := range strings.SplitSeq(path, ".") {
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if at = nil; err == nil && i < len(v) {
				at = v[i]
			}
		default:
			return "", false
		}
	}
	switch v := at.(type) {
	case nil:
		return "", false
	case string:
		return v, true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	b, err := json.Marshal(at)
	return string(b), err == nil
}
