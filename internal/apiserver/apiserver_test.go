package apiserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
)

func TestMain(m *testing.M) { leak.Main(m) }

// The test's server has one kind of each sort. PartialObjectMetadata serves as the generated type.
var resources = []apiserver.Resource{
	{Resource: "pods", Kind: "Pod", Fields: []string{"spec.nodeName"},
		Proto: apiserver.Proto[metav1.PartialObjectMetadata]()},
	{Resource: "nodes", Kind: "Node", Cluster: true},
	{Resource: "namespaces", Kind: "Namespace", Cluster: true},
	{Group: "example.com", Resource: "widgets", Kind: "Widget", Custom: true},
	{Group: "example.com", Resource: "sites", Kind: "Site", Custom: true, Status: true, Fields: []string{"status.ready"}},
	{Group: "example.com", Version: "v1beta1", Resource: "sites", Kind: "Site", Custom: true},
	{Group: "apps", Resource: "tools", Kind: "Tool", Cluster: true},
}

// A bench is a server and a client in one bubble.
type bench struct {
	*testing.T
	*apiserver.Server
	client *http.Client
	pods   *apiserver.Collection
}

// inBubble runs a test in a bubble, which fails if a goroutine is left when the server is closed.
func inBubble(t *testing.T, f func(b *bench)) {
	inBubbleOf(t, resources, func(b *bench) {
		b.pods = b.Collection("pods")
		f(b)
	})
}

// subtest is inBubble with a name.
func subtest(t *testing.T, name string, f func(b *bench)) {
	t.Run(name, func(t *testing.T) { inBubble(t, f) })
}

// inBubbleOf is inBubble with other resources.
func inBubbleOf(t *testing.T, resources []apiserver.Resource, f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		srv := apiserver.New(apiserver.Options{Resources: resources})
		b := &bench{T: t, Server: srv, client: srv.Client()}
		defer srv.Close()
		defer b.client.CloseIdleConnections()
		f(b)
	})
}

// pod is an object of the pods' collection.
func pod(name string, change ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	p := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		UID: types.UID("uid-" + name)}}
	for _, f := range change {
		f(p)
	}
	return p
}

func label(value string) func(*metav1.PartialObjectMetadata) {
	return func(p *metav1.PartialObjectMetadata) { p.Labels = map[string]string{"app": value} }
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }

// create makes pods, each a version.
func (b *bench) create(names ...string) {
	b.Helper()
	for _, name := range names {
		b.put("pods", pod(name))
	}
}

// touch makes one more version of a pod.
func (b *bench) touch(name, value string) {
	b.Helper()
	rig.Must[apiserver.Object](b)(b.pods.Update(pod(name, label(value))))
}

func (b *bench) remove(name string) {
	b.Helper()
	rig.Must[apiserver.Object](b)(b.pods.Delete(key(name)))
}

// put stores an object by the server's own program.
func (b *bench) put(resource string, object any) apiserver.Object {
	b.Helper()
	return rig.Must[apiserver.Object](b)(b.Collection(resource).Create(object))
}

// do sends a request for the pods of all namespaces, with a query.
func (b *bench) do(query string, header ...string) (*http.Response, error) {
	return b.request(http.MethodGet, b.URL("pods", "")+"?"+query, nil, header...)
}

func (b *bench) request(method, url string, body io.Reader, header ...string) (*http.Response, error) {
	b.Helper()
	req := rig.Must[*http.Request](b)(http.NewRequestWithContext(b.Context(), method, url, body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return b.client.Do(req)
}

// must returns an answer that there has to be.
func (b *bench) must(resp *http.Response, err error) *http.Response {
	b.Helper()
	return rig.Must[*http.Response](b)(resp, err)
}

// body returns all of an answer's body.
func (b *bench) body(resp *http.Response) []byte {
	b.Helper()
	return rig.Must[[]byte](b)(io.ReadAll(resp.Body))
}

// code returns what a request for a path is answered with.
func (b *bench) code(method, path, body string, header ...string) int {
	b.Helper()
	resp := b.must(b.request(method, "http://apiserver"+path, strings.NewReader(body), header...))
	_ = resp.Body.Close()
	return resp.StatusCode
}

// list says what a list shows: "200 rv=4 a@2 b@4", or the status that was answered: "410 Expired:
// …".
func (b *bench) list(query string) string {
	b.Helper()
	resp, err := b.do(query)
	if err != nil {
		return "error"
	}
	return b.listed(resp)
}

func (b *bench) listed(resp *http.Response) string {
	b.Helper()
	list := b.page(resp)
	if !strings.HasSuffix(list.Kind, "List") && list.end == "" {
		return fmt.Sprintf("%d %s", resp.StatusCode, list.text)
	}
	out := fmt.Sprintf("%d rv=%s", resp.StatusCode, list.ResourceVersion)
	for _, item := range list.Items {
		out += fmt.Sprintf(" %s@%s", item.Name, item.ResourceVersion)
	}
	return out + list.end
}

type page struct {
	metav1.PartialObjectMetadataList
	text string // the body where it is no list
	end  string // "broken" where the connection was, "malformed" where the JSON of a list is
}

func (b *bench) page(resp *http.Response) (out page) {
	b.Helper()
	body, err := io.ReadAll(resp.Body)
	rig.OK(b, resp.Body.Close())
	out.text = string(body)
	var status metav1.Status
	switch {
	case err != nil:
		out.end = " broken"
	case json.Unmarshal(body, &status) == nil && status.Kind == "Status":
		out.text = fmt.Sprintf("%s: %s", status.Reason, status.Message)
	case json.Unmarshal(body, &out.PartialObjectMetadataList) != nil && strings.HasPrefix(out.text, "{"):
		out.end = " malformed"
	}
	return out
}

// A stream is an open watch. It notes its events as "ADDED a@2", "BOOKMARK @4 end" or "ERROR 410
// too old …", and then how it ended: "EOF" or "broken".
type stream struct {
	b    *bench
	resp *http.Response

	mu   sync.Mutex
	said []string
}

func (b *bench) watch(query string) *stream {
	b.Helper()
	s := &stream{b: b}
	resp, err := b.do("watch=1&" + query)
	if err != nil {
		s.said = []string{"error"}
		return s
	}
	s.resp = resp
	if resp.StatusCode != http.StatusOK {
		page := b.page(resp)
		s.said = []string{fmt.Sprintf("%d %s", resp.StatusCode, page.text)}
		return s
	}
	go s.read()
	return s
}

func (s *stream) read() {
	lines := bufio.NewReader(s.resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err == nil {
			s.add(say(line))
			continue
		}
		if strings.TrimSpace(line) != "" {
			s.add("half")
		}
		s.add(map[bool]string{true: "EOF", false: "broken"}[err == io.EOF])
		return
	}
}

func (s *stream) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, line)
}

func say(line string) string {
	var ev struct {
		Type   string
		Object json.RawMessage
	}
	if json.Unmarshal([]byte(line), &ev) != nil {
		return "malformed"
	}
	if ev.Type == "ERROR" {
		var status metav1.Status
		_ = json.Unmarshal(ev.Object, &status) // a status that is none says 0
		return fmt.Sprintf("ERROR %d %s", status.Code, status.Message)
	}
	var obj metav1.PartialObjectMetadata
	if json.Unmarshal(ev.Object, &obj) != nil {
		return ev.Type + " wrong"
	}
	out := fmt.Sprintf("%s %s@%s", ev.Type, obj.Name, obj.ResourceVersion)
	if app := obj.Labels["app"]; app != "" {
		out += " app=" + app
	}
	if obj.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
		out += " end"
	}
	if string(ev.Object) == "null" {
		out = ev.Type + " null"
	} else if obj.Kind != "Pod" {
		out += " kind=" + obj.Kind
	}
	return out
}

// all waits until nothing more happens unless time passes. It returns all notes.
func (s *stream) all() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

// news returns the notes since the last call of news.
func (s *stream) news() []string {
	said := s.all()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = s.said[len(said):]
	return said
}

func (s *stream) close() {
	if s.resp != nil {
		_ = s.resp.Body.Close()
	}
	synctest.Wait()
}
