package hook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/crds"
	"github.com/go-lw/lw/internal/verify/rig"
)

// The resource of a request is that of its collection, whatever stands before it in the path.
func TestCollectionOf(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/pods": "pods", "/api/v1/namespaces": "namespaces", "/api/v1/namespaces/default": "",
		"/api/v1/namespaces/default/pods":   "pods",
		"/api/v1/namespaces/default/pods/a": "", "/apis/apps/v1/deployments": "deployments.apps",
		"/apis/apps/v1/namespaces/x/deployments": "deployments.apps",
		"/k8s/clusters/c/api/v1/pods":            "pods", "/apis/apps/v1": "", "/healthz": "", "/api": "",
	} {
		rig.Same(t, path, want, collectionOf(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}}))
	}
	write := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/api/v1/pods"}}
	rig.Same(t, "of a write", "", collectionOf(write))
}

// Lists, watches, events and bytes are counted, however the body is cut when it is read.
func TestWire(t *testing.T) {
	bodies := map[string]string{
		"list": "12345", "page": "678", "json": "{}\n{}\n", "proto": "\x00\x00\x00\x02ab\x00\x00\x01\x00" +
			strings.Repeat("c", 256) + "\x00\x00\x00\x01d", "gone": "{}\n", "no": "{}\n", "none": "{}\n",
	}
	queries := map[string]string{"list": "limit=500", "page": "limit=500&continue=x", "json": "watch=true",
		"proto": "watch=1&sendInitialEvents=true", "gone": "watch=true", "no": "watch=false", "none": "watch=0"}
	for _, cut := range []int{1, 3, 1000} {
		var w wire
		client := w.counted(&http.Client{Transport: rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			name, status := r.Header.Get("X-Body"), http.StatusOK
			if name == "gone" {
				status = http.StatusGone
			}
			contentType := "application/json"
			if name == "proto" {
				contentType = "application/vnd.kubernetes.protobuf;stream=watch"
			}
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}},
				Body: io.NopCloser(strings.NewReader(bodies[name]))}, nil
		})})
		rig.Same(t, "what is counted is counted twice", false, w.counted(client) != client)
		total := 0
		for name, body := range bodies {
			total += len(body)
			r := rig.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/api/v1/pods?"+
				queries[name], nil))
			r.Header.Set("X-Body", name)
			resp := rig.Must[*http.Response](t)(client.Do(r))
			var got bytes.Buffer
			if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{resp.Body},
				make([]byte, cut)); err != nil || got.String() != body {
				t.Errorf("%v: %q", err, &got)
			}
			resp.Body.Close()
		}
		one := rig.Must[*http.Request](t)(http.NewRequest(http.MethodGet, "http://server/api/v1/namespaces/a/pods/b", nil))
		one.Header.Set("X-Body", "list")
		rig.OK(t, rig.Must[*http.Response](t)(client.Do(one)).Body.Close()) // is no list, and is not counted
		var got []uint64
		for _, row := range w.rows() {
			got = append(got, row.lists.Load(), row.watches.Load(), row.events.Load(), row.bytes.Load())
		}
		rig.Same(t, fmt.Sprintf("read by %d: lists, watches, events, bytes", cut), []uint64{4, 3, 5, uint64(total)}, got)
	}
}

// The report names each informer by its kind, and says that it has metadata only. Its row has the
// events without bookmarks, and the lists but for the first.
func TestReportNames(t *testing.T) {
	u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	m.SetGroupVersionKind(u.GroupVersionKind())
	for want, got := range map[string]string{
		"Deployment.apps": typeOf(u, "described"), "Deployment.apps metadata": typeOf(m, "described"),
		"described":                 typeOf(&metav1.PartialObjectMetadata{}, "described"),
		"v1.PartialObjectMetadata":  typeOf(&metav1.PartialObjectMetadata{}, ""),
		"unstructured.Unstructured": typeOf(&unstructured.Unstructured{}, ""),
	} {
		rig.Same(t, "", want, got)
	}
	rig.Same(t, "", "v1.PartialObjectMetadata", typeOf((*metav1.PartialObjectMetadata)(nil), ""))
	rig.Same(t, "", "unstructured.Unstructured", typeOf((*unstructured.Unstructured)(nil), ""))
	status := lw.Status{Decoder: "lw", StoreStatus: lw.StoreStatus{Objects: 7}, Events: map[string]uint64{"added": 2,
		"modified": 3, "bookmark": 50}}
	for lists, relists := range map[uint64]string{0: "0", 1: "0", 4: "3"} {
		status.ListCauses = map[string]uint64{"first": min(lists, 1), "gone": lists - min(lists, 1)}
		row, why := newState("", "").row(&entry{kind: "informer", of: "pods",
			status: func() (lw.Status, bool) { return status, true }})
		rig.Same(t, "", "| pods | informer | lw | lw | 7 | 5 | "+relists+" | ? |\n", row)
		rig.Same(t, "", "", why)
	}
}

// The report says whose informers run, and its rows are in the order of what they are of, then in
// that in which they were made.
func TestReportRows(t *testing.T) {
	for switched, side := range map[string]string{"": "lw", "off": "client-go (LW=off)"} {
		s := newState(switched, "report")
		for _, e := range [][2]string{{"informer", "pods"}, {"reflector", "nodes"}, {"controller", "pods"},
			{"informer", "nodes"}} {
			s.made(&entry{kind: e[0], of: e[1], why: "a test"})
		}
		rig.Same(t, "", []string{"nodes reflector", "nodes informer", "pods informer", "pods controller"}, rows(s))
		if page := s.page(); !strings.Contains(page, "\nside: "+side+"\n") {
			t.Errorf("LW=%s:\n%s", switched, page)
		}
	}
}

// rows returns what each row of the report of s is of, and what it is.
func rows(s *state) (names []string) {
	row := regexp.MustCompile(`(?m)^\| (\S+) \| (informer|controller|reflector) \|`)
	for _, m := range row.FindAllStringSubmatch(s.page(), -1) {
		names = append(names, m[1]+" "+m[2])
	}
	return names
}

// A reflector runs here unless LW=off or it has no ListerWatcher, and has a row of its own unless
// it is that of an informer of client-go.
func TestReflector(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lister, row := &cache.ListWatch{}, []string{"v1.PartialObjectMetadata reflector"}
	for _, tt := range []struct {
		switched string
		lister   cache.ListerWatcher
		queue    bool
		ran      bool
		rows     []string
	}{
		{"", lister, false, true, row}, {"", lister, true, true, row}, {"", nil, false, false, row},
		{"off", lister, false, false, row}, {"off", lister, true, false, nil},
	} {
		rig.Swap(t, &process, newState(tt.switched, "report"))
		ran := Reflector(ctx, tt.lister, &metav1.PartialObjectMetadata{}, cache.NewStore(cache.MetaNamespaceKeyFunc), tt.queue,
			cache.ReflectorOptions{}, 0, nil)
		rig.Same(t, fmt.Sprintf("%+v ran", tt), tt.ran, ran)
		rig.Same(t, fmt.Sprintf("%+v", tt), tt.rows, rows(process))
	}
}

// The report of a program is kept as it runs, and is written at once when somebody asks for it.
// That of a test binary is a line for each informer.
func TestStart(t *testing.T) {
	for _, name := range []string{"LW_BOARD", "LW_KINDS", "LW_LIMIT"} {
		t.Setenv(name, "")
	}
	for _, test := range []bool{false, true} {
		rig.Subtest(t, fmt.Sprint("test ", test), func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "report")
			rig.Swap(t, &os.Stderr, rig.Must[*os.File](t)(os.Create(filepath.Join(dir, "errors"))))
			report := func() string { return string(rig.Must[[]byte](t)(os.ReadFile(file))) }
			ctx, cancel := context.WithCancel(t.Context())
			s := newState("", file)
			s.start(ctx, nil, "kept", test)
			s.made(&entry{kind: "informer", of: "pods", why: "a test",
				synced: func() bool { return time.Since(s.began) > 1505*time.Millisecond }})
			rig.Sleep(3 * time.Second)
			if test {
				rig.Same(t, "", filepath.Base(os.Args[0])+"\tinformer\tpods\ta test\n", report())
			} else if page := report(); !strings.Contains(page, "\nversions: kept\n") ||
				!strings.Contains(page, " | 1.51 s |\n") {
				t.Error(page)
			}
			cancel()
			synctest.Wait()
			rig.Same(t, "errors", "", string(rig.Must[[]byte](t)(os.ReadFile(os.Stderr.Name()))))
		})
	}
	rig.Subtest(t, "asked", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s, asked := newState("", filepath.Join(t.TempDir(), "report")), make(chan os.Signal)
		go s.keepReport(ctx, asked)
		for range 2 {
			rig.Sleep(1100 * time.Millisecond)
			asked <- os.Interrupt
			synctest.Wait()
			page := string(rig.Must[[]byte](t)(os.ReadFile(s.file)))
			if !strings.Contains(page, "that of a collection for this report") ||
				!strings.Contains(page, fmt.Sprintf("\nafter: %.1f s\n", time.Since(s.began).Seconds())) {
				t.Error(page)
			}
		}
		cancel()
	})
}

// A program that ends writes its report, if it is to have one. What a test binary has written stays.
func TestEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, tt := range []struct {
		file string
		test bool
		want bool
	}{{"", false, false}, {"", true, false}, {"report", true, false}, {"report", false, true}} {
		rig.Swap(t, &process, newState("", tt.file))
		process.test = tt.test
		rig.Same(t, "the code", 3, Exit(3))
		files := rig.Must[[]os.DirEntry](t)(os.ReadDir("."))
		rig.Same(t, fmt.Sprintf("%+v: written", tt), tt.want, len(files) == 1)
	}
}

// A closer is a transport with connections.
type closer struct {
	http.RoundTripper
	closed *int
}

func (c closer) CloseIdleConnections() { *c.closed++ }

// Who closes the idle connections of a counted client closes those of its transport.
func TestCountedCloses(t *testing.T) {
	var w wire
	var closed int
	w.counted(&http.Client{Transport: closer{nil, &closed}}).CloseIdleConnections()
	rig.Same(t, "", 1, closed)
	w.counted(&http.Client{Transport: rig.RoundTrip(nil)}).CloseIdleConnections()
}

// A handler of a reflector's errors is told of failed requests, as client-go names them.
func TestFailed(t *testing.T) {
	refused := errors.New("refused")
	var told []error
	onError := failed(func(err error) { told = append(told, err) })
	onError(&lw.Error{Op: "watch", Err: errors.New("resumed at once")})
	onError(&lw.Error{Op: "list", Failures: 1, Err: refused})
	if len(told) != 1 || told[0] != refused || failed(nil) != nil {
		t.Errorf("told of %v", told)
	}
}

// The report says when the last informer had synced, one made late included, and whether its heap
// is of a collection for it.
func TestAllSynced(t *testing.T) {
	const all, heap = "\nall synced after: ", "\nThe heap is that of a collection for this report"
	s := newState("", "report")
	synced := map[string]bool{}
	make := func(name string) {
		s.made(&entry{kind: "informer", of: name, why: "a test", synced: func() bool { return synced[name] }})
	}
	has := func(when string, want bool) {
		t.Helper()
		s.look()
		if got := strings.Contains(s.page(), all); got != want {
			t.Errorf("%s: %v, want %v:\n%s", when, got, want, s.page())
		}
	}
	has("without informers", false)
	make("a")
	has("before it has synced", false)
	synced["a"] = true
	has("after it has synced", true)
	first := s.all.after
	has("later", true)
	rig.Same(t, "the time of the sync", first, s.all.after)
	make("late")
	has("with one that has not synced", false)
	synced["late"] = true
	has("when that has synced", true)
	if s.all.after <= first {
		t.Errorf("the late one synced at %v, the first at %v", s.all.after, first)
	}
	late := s.all.after
	synced["quick"] = true
	make("quick")
	has("with one that has synced before the first look", true)
	if s.all.after <= late {
		t.Errorf("the quick one synced at %v, the late one at %v", s.all.after, late)
	}
	for _, asked := range []bool{false, true} { // for the report, which says that its heap is of a collection for it
		s.asked = asked
		rig.Same(t, "of a collection for it", asked, strings.Contains(s.page(), heap))
	}
}

// With LW_KINDS=wait the informers of a program, whose code knows nothing of it, make no request
// for what nobody serves.
func TestWaitForKinds(t *testing.T) {
	mice := schema.GroupVersionResource{Group: crds.Group, Version: crds.Version, Resource: "mice"}
	for _, wait := range []bool{false, true} {
		rig.Subtest(t, fmt.Sprint(wait), func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			rig.Swap(t, &process, newState("", ""))
			if wait {
				process.waitForKinds(ctx)
			}
			s := crds.New(t)
			client := rig.Must[*dynamic.DynamicClient](t)(dynamic.NewForConfigAndClient(&rest.Config{Host: s.URL(), QPS: -1},
				Client(&http.Client{Transport: s})))
			from := client.Resource(mice)
			inf := Informer(&cache.ListWatch{
				ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return from.List(ctx, o) },
				WatchFuncWithContext: from.Watch,
			}, &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{})
			rig.OK(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}))
			ended := make(chan struct{})
			go func() { defer close(ended); inf.RunWithContext(ctx) }()
			defer func() { cancel(); <-ended }()
			rig.Sleep(time.Hour)
			if n := s.Asked("/mice"); wait != (n == 0) || wait != inf.HasSynced() {
				t.Errorf("absent: %d requests, synced %v", n, inf.HasSynced())
			}
			s.Define("mice", "Mouse", "Namespaced")
			s.Create("mice", "Mouse", "a", "jerry")
			rig.Sleep(time.Minute)
			rig.Same(t, "objects", []string{"a/jerry"}, inf.GetStore().ListKeys())
			rig.Same(t, "waits", wait, Waits())
			for url, want := range map[string]bool{s.URL(): wait, s.URL() + "/of/another": false} {
				kinds := Kinds(meta.NewDefaultRESTMapper(nil), url, &http.Client{Transport: s, Timeout: time.Second}, false)
				rig.Same(t, "there is a mapper of "+url, want, kinds != nil)
			}
			process.off = true
			rig.Same(t, "there is a mapper with LW=off", true, Kinds(nil, s.URL(), http.DefaultClient, false) == nil)
		})
	}
}

// LW_PACK=1 has the objects packed, and nothing else does.
func TestPack(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true} {
		t.Setenv("LW_PACK", value)
		rig.Same(t, "LW_PACK="+value, want, newState("", "").decoder(0, nil).Pack)
	}
}

// LW_LIMIT is a number of bytes, with a unit or without.
func TestLimitOf(t *testing.T) {
	for text, want := range map[string]int64{
		"": 0, "2000000": 2000000, "4096KiB": 4 << 20, "256MiB": 256 << 20, "256Mi": 256 << 20, "1GiB": 1 << 30,
	} {
		limit, err := limitOf(text)
		rig.OK(t, err)
		if want == 0 != (limit == nil) || limit != nil && limit.Bytes != want {
			t.Errorf("%q is %v", text, limit)
		}
	}
	for _, text := range []string{"much", "-1", "0", "256 MiB", "256m", "64KiB"} {
		if limit, err := limitOf(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is %v, %v", text, limit, err)
		}
	}
}

// What cannot be done of what the environment asks for is said, and the rest is done.
func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		limit, kinds, board string
		test                bool
		says                string // a regular expression
		bytes               int64
		waits               bool
	}{
		{"", "", "", false, `^$`, 0, false},
		{"256MiB", "wait", "", false, `^$`, 256 << 20, true},
		{"256MiB", "wait", "127.0.0.1:none", true, `^$`, 256 << 20, false},
		{"much", "yes", "", false, `^lwbuild: LW_LIMIT: "much" is no number of bytes .* \(there is no limit\)\n$`, 0, false},
		{"", "wait", "127.0.0.1:none", false, `^lwbuild: LW_BOARD: listen tcp: .*\n$`, 0, true},
		{"", "", "127.0.0.1:0", false, `^lwbuild: LW_BOARD: (http://127.0.0.1:\d+)\n$`, 0, false},
	} {
		t.Run(fmt.Sprintf("%+v", tt), func(t *testing.T) {
			for name, value := range map[string]string{"LW_LIMIT": tt.limit, "LW_KINDS": tt.kinds, "LW_BOARD": tt.board} {
				t.Setenv(name, value)
			}
			rig.Swap(t, &os.Stderr, rig.Must[*os.File](t)(os.Create(filepath.Join(t.TempDir(), "errors"))))
			s := newState("", "")
			s.start(t.Context(), nil, "", tt.test)
			d := s.decoder(7, nil)
			rig.Same(t, "it is limited", tt.bytes > 0, d.Limit != nil && d.Limit.Bytes == tt.bytes)
			rig.Same(t, "it waits", tt.waits, d.Kinds != nil)
			rig.Same(t, "the size of a page", 7, d.Options.PageSize)
			rig.Same(t, "the board is that of the process", true, d.Options.Board == &s.board)
			said := rig.Must[[]byte](t)(os.ReadFile(os.Stderr.Name()))
			m := regexp.MustCompile(tt.says).FindSubmatch(said)
			if m == nil {
				t.Fatalf("it says %q, want %q", said, tt.says)
			}
			if len(m) > 1 {
				resp := rig.Must[*http.Response](t)(http.Get(string(m[1])))
				rig.Same(t, "the board answers", http.StatusOK, resp.StatusCode)
				rig.OK(t, resp.Body.Close())
			}
		})
	}
}

// A report that cannot be written is said, and nothing else fails.
func TestReportCannotBeWritten(t *testing.T) {
	for _, test := range []bool{false, true} {
		dir := t.TempDir()
		rig.Swap(t, &os.Stderr, rig.Must[*os.File](t)(os.Create(filepath.Join(dir, "errors"))))
		s := newState("", filepath.Join(dir, "none", "report"))
		s.test = test
		s.made(&entry{kind: "informer", of: "pods", why: "a test"})
		if !test {
			s.write()
		}
		said := string(rig.Must[[]byte](t)(os.ReadFile(os.Stderr.Name())))
		if !strings.HasPrefix(said, "lwbuild: LW_REPORT: open ") {
			t.Errorf("test %v: %q", test, said)
		}
	}
}

// The requests of a program are counted for its report, and captured unless LW=off.
func TestClient(t *testing.T) {
	const counts, captures, theirs = "*hook.counting", "*clientgo.capturing", "*http.Transport"
	for _, tt := range []struct {
		switched, file string
		test           bool
		want           []string
	}{
		{"", "report", false, []string{captures, counts, theirs}}, {"off", "report", false, []string{counts, theirs}},
		{"", "report", true, []string{captures, theirs}}, {"off", "report", true, nil},
		{"", "", false, []string{captures, theirs}}, {"off", "", false, nil},
	} {
		rig.Swap(t, &process, newState(tt.switched, tt.file))
		process.test = tt.test
		for _, client := range []*http.Client{nil, {}} {
			var chain []string
			if out := Client(client); out != client {
				for rt := out.Transport; rt != nil; {
					chain = append(chain, fmt.Sprintf("%T", rt))
					wrapper, ok := rt.(interface{ WrappedRoundTripper() http.RoundTripper })
					if !ok {
						break
					}
					rt = wrapper.WrappedRoundTripper()
				}
			}
			rig.Same(t, fmt.Sprintf("%+v", tt), tt.want, chain)
		}
	}
}

// A row says who decodes, and the list below it why that is not lw.
func TestWhoDecodes(t *testing.T) {
	for _, tt := range []struct {
		decoder, phase string
		row, why       string
	}{
		{"lw", "", "lw | lw | 0 | 0 | 0", ""}, {"standard", "", "lw | standard | 0 | 0 | 0", ""},
		{"client-go", "", "lw | client-go | 0 | 0 | 0", "client-go decodes"},
		{"client-go: a fake", "", "lw | client-go | 0 | 0 | 0", "client-go decodes: a fake"},
		{"", "list", "lw | ? | 0 | 0 | 0", "nothing was decoded: list"},
		{"", "", "lw | ? | 0 | 0 | 0", "nothing was decoded: idle"},
		{"unknown", "", "lw | ? | ? | ? | ?", ""},
	} {
		row, why := newState("", "").row(&entry{kind: "informer", of: "pods", status: func() (lw.Status, bool) {
			return lw.Status{Decoder: tt.decoder, Phase: tt.phase}, tt.decoder != "unknown"
		}})
		rig.Same(t, tt.decoder, "| pods | informer | "+tt.row+" | ? |\n", row)
		rig.Same(t, tt.decoder, tt.why, why)
	}
}

// Each informer, controller and reflector has its row, whose ever it is.
func TestWholeReport(t *testing.T) {
	rows := map[string][]string{"": {
		`\| v1.PartialObjectMetadata \| informer \| lw \| client-go \| 1 \| 0 \| 0 \| 1.00 s \|`,
		`\| v1.PartialObjectMetadata \| controller \| lw \| client-go \| 1 \| 0 \| 0 \| 1.00 s \|`,
		`\| v1.PartialObjectMetadata \| reflector \| lw \| client-go \| \? \| 0 \| 0 \| 1.00 s \|`,
		``, `Not lw's:`, ``,
		`- informer of v1.PartialObjectMetadata: client-go decodes: .*`,
		`- controller of v1.PartialObjectMetadata: client-go decodes: .*`,
		`- reflector of v1.PartialObjectMetadata: client-go decodes: .*`,
	}, "off": {
		`\| v1.PartialObjectMetadata \| informer \| client-go \| client-go \| 1 \| \? \| \? \| 1.00 s \|`,
		`\| v1.PartialObjectMetadata \| controller \| client-go \| client-go \| 1 \| \? \| \? \| 1.00 s \|`,
		`\| v1.PartialObjectMetadata \| reflector \| client-go \| client-go \| \? \| \? \| \? \| \? \|`,
		``, `Not lw's:`, ``,
		`- informer of v1.PartialObjectMetadata: LW=off`, `- controller of v1.PartialObjectMetadata: LW=off`,
		`- reflector of v1.PartialObjectMetadata: LW=off`,
	}}
	for switched, of := range rows {
		rig.Subtest(t, "LW="+switched, func(t *testing.T) {
			rig.Swap(t, &process, newState(switched, "report"))
			process.raised = "kept"
			process.wire.of("pods").lists.Add(3)
			process.wire.of("pods").watches.Add(4)
			process.wire.of("nodes").events.Add(5)
			process.wire.of("nodes").bytes.Add(6)
			lister := &cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"},
						Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}}}}, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
					return watch.NewFake(), nil
				},
			}
			from := cache.ToListWatcherWithWatchListSemantics(lister, noStreams{})
			example := &metav1.PartialObjectMetadata{}
			ctx, cancel := context.WithCancel(t.Context())
			inf := Informer(from, example, cache.SharedIndexInformerOptions{})
			_, controller := Controller(cache.InformerOptions{ListerWatcher: from, ObjectType: example,
				Handler: cache.ResourceEventHandlerFuncs{}})
			var all sync.WaitGroup
			all.Go(func() { inf.RunWithContext(ctx) })
			all.Go(func() { controller.RunWithContext(ctx) })
			all.Go(func() {
				Reflector(ctx, from, example, cache.NewStore(cache.MetaNamespaceKeyFunc), false, cache.ReflectorOptions{}, 0, nil)
			})
			rig.Sleep(time.Second)
			process.look()
			want := strings.Join(append([]string{
				`# Informers of \S+`, ``, `side: ` + map[string]string{"": "lw", "off": `client-go \(LW=off\)`}[switched],
				`versions: kept`, `after: 1.0 s`, `CPU: (\d+\.\d\d) s \(user (\d+\.\d\d), system (\d+\.\d\d)\)`,
				`live heap: \d+\.\d MB`, `peak memory: [1-9]\d*\.\d MB`, `all synced after: 1.00 s`,
				`CPU until all had synced: (\d+\.\d\d) s`, `CPU since then: (\d+\.\d\d) s`, ``,
				`CPU, heap and memory are those of the whole process. What is read of a resource:`, ``,
				`\| resource \| lists \| watches \| events \| bytes \|`, `\|(---\|){5}`, `\| nodes \| 0 \| 0 \| 5 \| 6 \|`,
				`\| pods \| 3 \| 4 \| 0 \| 0 \|`, ``,
				`\| of \| is \| store of \| decoded by \| objects \| events \| relists \| synced after \|`, `\|(---\|){8}`,
			}, of...), "\n")
			page := process.page()
			cancel()
			all.Wait()
			m := regexp.MustCompile("^" + want + "\n$").FindStringSubmatch(page)
			if m == nil {
				t.Fatalf("the report is\n%s", page)
			}
			var cpu [5]float64 // in all, user, system, until all had synced, since then; each is rounded
			for i := range cpu {
				cpu[i] = rig.Must[float64](t)(strconv.ParseFloat(m[i+1], 64))
			}
			if math.Abs(cpu[1]+cpu[2]-cpu[0]) > 0.016 || math.Abs(cpu[3]+cpu[4]-cpu[0]) > 0.016 {
				t.Errorf("the CPU does not add up:\n%s", page)
			}
		})
	}
}

// noStreams is a client that is a fake.
type noStreams struct{}

func (noStreams) IsWatchListSemanticsUnSupported() bool { return true }
