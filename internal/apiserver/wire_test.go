package apiserver_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/util/framer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	. "github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/verify/rig"
)

// scheme knows the test's kinds by the only generated types that there are here.
var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, core)
	s.AddKnownTypeWithName(core.WithKind("Pod"), &metav1.PartialObjectMetadata{})
	s.AddKnownTypeWithName(core.WithKind("PodList"), &metav1.PartialObjectMetadataList{})
	utilruntime.Must(metav1.AddMetaToScheme(s))
	return s
}()

const (
	acceptProto   = "application/vnd.kubernetes.protobuf"
	partialObject = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	partialList   = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// TestStreamFrames reads a stream with apimachinery's own framers and decoders.
func TestStreamFrames(t *testing.T) {
	type framing struct {
		frames func(io.ReadCloser) io.ReadCloser
		event  runtime.Decoder
		object runtime.Decoder
	}
	jsonFraming := framing{
		framer.NewJSONFramedReader,
		jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
			jsonserializer.SerializerOptions{}),
		jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
			jsonserializer.SerializerOptions{Strict: true}),
	}
	protoFraming := framing{
		framer.NewLengthDelimitedFrameReader, protobuf.NewRawSerializer(scheme, scheme),
		protobuf.NewSerializer(scheme, scheme),
	}
	for _, c := range []struct {
		accept, contentType string
		framing             framing
		kind                string
	}{
		{"", "application/json", jsonFraming, "/v1, Kind=Pod"},
		{"*/*", "application/json", jsonFraming, "/v1, Kind=Pod"},
		{"application/json" + partialObject, "application/json", jsonFraming, "meta.k8s.io/v1, Kind=PartialObjectMetadata"},
		{acceptProto + ",application/json", acceptProto + ";stream=watch", protoFraming, "/v1, Kind=Pod"},
		{acceptProto + ";stream=watch", acceptProto + ";stream=watch", protoFraming, "/v1, Kind=Pod"},
		{acceptProto + partialObject, acceptProto + ";stream=watch", protoFraming,
			"meta.k8s.io/v1, Kind=PartialObjectMetadata"},
	} {
		subtest(t, c.accept, func(b *bench) {
			b.create("a")
			b.Inject(Fault{Do: At(4, Error(fmt.Errorf("oops")))})
			resp := b.must(b.do("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
				"Accept", c.accept))
			defer func() { _ = resp.Body.Close() }()
			rig.Same(b, "Content-Type", c.contentType, resp.Header.Get("Content-Type"))
			synctest.Wait()
			b.touch("a", "x")
			b.remove("a")
			b.create("b")
			decoder := streaming.NewDecoder(c.framing.frames(resp.Body), c.framing.event)
			var got []string
			for {
				var ev metav1.WatchEvent
				_, _, err := decoder.Decode(&schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}, &ev)
				if err == io.EOF {
					break
				}
				rig.OK(b, err)
				obj, gvk, err := c.framing.object.Decode(ev.Object.Raw, nil, nil)
				rig.OK(b, err)
				line := ev.Type + " " + gvk.String()
				switch obj := obj.(type) {
				case *metav1.PartialObjectMetadata:
					line += fmt.Sprintf(" %s %s@%s %v %v", obj.UID, obj.Name, obj.ResourceVersion, obj.Labels, obj.Annotations)
				case *metav1.Status:
					line += fmt.Sprintf(" %d", obj.Code)
				}
				got = append(got, line)
			}
			want := []string{
				"ADDED " + c.kind + " uid-a a@2 map[] map[]",
				"BOOKMARK " + c.kind + "  @2 map[] map[k8s.io/initial-events-end:true]",
				"MODIFIED " + c.kind + " uid-a a@3 map[app:x] map[]",
				"DELETED " + c.kind + " uid-a a@4 map[app:x] map[]",
				"ERROR /v1, Kind=Status 500",
			}
			rig.Same(b, "events", want, got)
		})
	}
}

// TestAnswers reads lists, objects and statuses with apimachinery's own decoders.
func TestAnswers(t *testing.T) {
	decoder := func(contentType string) runtime.Decoder {
		if contentType == acceptProto {
			return protobuf.NewSerializer(scheme, scheme)
		}
		return jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme,
			jsonserializer.SerializerOptions{})
	}
	for _, c := range []struct{ accept, path, contentType, want string }{
		{"", "", "application/json", "/v1, Kind=PodList 3 [a@2 b@3]"},
		{acceptProto, "?limit=1", acceptProto, "/v1, Kind=PodList 3 [a@2] more"},
		{"application/json" + partialList, "", "application/json",
			"meta.k8s.io/v1, Kind=PartialObjectMetadataList 3 [a@2 PartialObjectMetadata b@3 PartialObjectMetadata]"},
		{acceptProto + partialList, "", acceptProto, "meta.k8s.io/v1, Kind=PartialObjectMetadataList 3 [a@2 b@3]"},
		{"application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "", "application/json",
			"meta.k8s.io/v1, Kind=Table"},
		{"application/json;q=0.5," + acceptProto, "", acceptProto, "/v1, Kind=PodList 3 [a@2 b@3]"},
		{"application/json" + partialObject, "", "application/json", "/v1, Kind=Status 406"},
		{"application/yaml", "", "application/json", "/v1, Kind=Status 406"},
		{acceptProto, "/a", acceptProto, "/v1, Kind=Pod a@2"},
		{"application/json", "/a", "application/json", "/v1, Kind=Pod a@2"},
		{acceptProto + partialObject, "/a", acceptProto, "meta.k8s.io/v1, Kind=PartialObjectMetadata a@2"},
		{acceptProto, "/c", acceptProto, "/v1, Kind=Status 404"},
	} {
		subtest(t, c.accept+c.path, func(b *bench) {
			b.create("a", "b")
			resp := b.must(b.request(http.MethodGet, b.URL("pods", "ns")+c.path, nil, "Accept", c.accept))
			body := b.body(resp)
			rig.Same(b, "Content-Type", c.contentType, resp.Header.Get("Content-Type"))
			obj, gvk, err := decoder(c.contentType).Decode(body, nil, nil)
			rig.OK(b, err)
			got := gvk.String()
			switch obj := obj.(type) {
			case *metav1.PartialObjectMetadataList:
				var items []string
				for _, item := range obj.Items {
					items = append(items, strings.TrimSpace(fmt.Sprintf("%s@%s %s", item.Name, item.ResourceVersion, item.Kind)))
				}
				got += fmt.Sprintf(" %s %v", obj.ResourceVersion, items)
				if obj.Continue != "" && obj.RemainingItemCount != nil {
					got += " more"
				}
			case *metav1.PartialObjectMetadata:
				got += fmt.Sprintf(" %s@%s", obj.Name, obj.ResourceVersion)
			case *metav1.Status:
				got += fmt.Sprintf(" %d", obj.Code)
				rig.Same(b, "the answer's code", int(obj.Code), resp.StatusCode)
			}
			rig.Same(b, "answer", c.want, got)
		})
	}
}

// TestJSON is what a built-in and a custom resource look like to the byte.
func TestJSON(t *testing.T) {
	inBubble(t, func(b *bench) {
		const in = `{"spec": {"x": [1, 2]}, "metadata": {"name": "w", "namespace": "ns", "uid": "u", "unknown": 1}, "data": "é<\"}\\\\", "n": -1, "status": {"ok": true}}`
		const out = `"metadata":{"name":"w","namespace":"ns","uid":"u","resourceVersion":"%d","generation":1,"creationTimestamp":"2000-01-01T00:00:00Z"},` +
			`"spec":{"x":[1,2]},"data":"é<\"}\\\\","n":-1,"status":{"ok":true}}`
		for i, c := range []struct{ resource, head, item string }{
			{"pods", `{"kind":"Pod","apiVersion":"v1",`, "{"},
			{"widgets", `{"kind":"Widget","apiVersion":"example.com/v1",`, `{"kind":"Widget","apiVersion":"example.com/v1",`},
		} {
			obj := b.put(c.resource, []byte(in))
			object := fmt.Sprintf(out, i+2)
			rig.Same(b, "object", c.head+object, string(obj.JSON))
			resp := b.must(b.request(http.MethodGet, b.URL(c.resource, ""), nil))
			list := b.body(resp)
			want := strings.Replace(c.head, `",`, `List",`, 1) + fmt.Sprintf(`"metadata":{"resourceVersion":"%d"},"items":[`,
				i+2) + c.item + object + "]}\n"
			rig.Same(b, "list", want, string(list))
		}
	})
}

func TestGzip(t *testing.T) {
	inBubble(t, func(b *bench) {
		const streamed = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
		get := func(query, offer string) (encoding string, size int, body []byte) {
			b.Helper()
			header := []string{"Accept-Encoding", "identity"}
			if offer == "gzip" {
				header = nil // net/http offers it by itself, and then unpacks it
			}
			resp := b.must(b.do(query, header...))
			body = b.body(resp)
			return map[bool]string{true: "gzip"}[resp.Uncompressed], int(resp.ContentLength), body
		}
		for i := range 300 {
			if i == 10 {
				if encoding, size, body := get("", "gzip"); encoding != "" || size != len(body) {
					b.Errorf("a short list: got %q, length %d of %d", encoding, size, len(body))
				}
			}
			b.put("pods", pod(fmt.Sprint("pod-", i), label(strings.Repeat("x", 1000))))
		}
		for _, query := range []string{"", streamed} {
			encoding, _, packed := get(query, "gzip")
			rig.Same(b, query+" where gzip is offered", "gzip", encoding)
			encoding, _, plain := get(query, "")
			rig.Same(b, query+" where it is not", "", encoding)
			if !slices.Equal(packed, plain) {
				b.Errorf("%q differs by compression", query)
			}
		}
		if encoding, _, _ := get("watch=1&timeoutSeconds=1", "gzip"); encoding != "" {
			b.Error("a plain watch is compressed")
		}
		var list metav1.PartialObjectMetadataList
		if _, _, body := get("", "gzip"); json.Unmarshal(body, &list) != nil || len(list.Items) != 300 {
			b.Errorf("%d items, want 300", len(list.Items))
		}
	})
}

// A stream that waits has sent whole members of gzip, so no writer waits with it.
func TestGzipMembers(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.put("pods", pod("a"))
		const query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
		resp := b.must(b.do(query, "Accept-Encoding", "gzip"))
		defer resp.Body.Close()
		rig.Same(b, "encoding", "gzip", resp.Header.Get("Content-Encoding"))
		body := bufio.NewReader(resp.Body)
		member := func() string {
			b.Helper()
			z := rig.Must[*gzip.Reader](b)(gzip.NewReader(body))
			z.Multistream(false)
			return string(rig.Must[[]byte](b)(io.ReadAll(z)))
		}
		rig.Same(b, "the list, and its end", 2, strings.Count(member(), "\n"))
		for _, name := range []string{"b", "c"} {
			b.put("pods", pod(name))
			if got := member(); !strings.Contains(got, `"name":"`+name+`"`) {
				b.Errorf("after a write of %s: %s", name, got)
			}
		}
	})
}

// TestProtoListFaults breaks protobuf lists, which are sent after their length.
func TestProtoListFaults(t *testing.T) {
	for name, c := range map[string]struct {
		do   Effect
		want string
	}{
		"whole":         {All(), "a b"},
		"duplicate":     {At(0, Replay(0)), "a a b"},
		"renamed":       {At(0, Set("metadata.name", `"x"`)), "x b"},
		"truncated":     {At(1, Cut), "unexpected EOF"},
		"broken":        {At(1, Break), "unexpected EOF"},
		"wrong field":   {At(0, Set("metadata.name", "7")), "undecodable"},
		"another bytes": {At(0, Frame("\xff\xff")), "undecodable"},
	} {
		subtest(t, name, func(b *bench) {
			b.create("a", "b")
			b.Inject(Fault{Do: c.do})
			resp := b.must(b.do("", "Accept", acceptProto))
			body, err := io.ReadAll(resp.Body)
			if (err != nil) != (name == "broken") {
				b.Errorf("read: %v", err)
			}
			obj, _, err := protobuf.NewSerializer(scheme, scheme).Decode(body, nil, nil)
			var got string
			if err == io.ErrUnexpectedEOF {
				got = err.Error()
			} else if err != nil {
				got = "undecodable"
			} else {
				var names []string
				for _, item := range obj.(*metav1.PartialObjectMetadataList).Items {
					names = append(names, item.Name)
				}
				got = strings.Join(names, " ")
			}
			rig.Same(b, "names", c.want, got)
		})
	}
}

// TestUnencodable uses a type that cannot encode what was stored. To the client that must not look
// like an empty collection or a lost connection.
func TestUnencodable(t *testing.T) {
	broken := func([]byte) ([]byte, error) { return nil, fmt.Errorf("no such field") }
	inBubbleOf(t, []Resource{{Resource: "pods", Kind: "Pod", Proto: broken}}, func(b *bench) {
		b.create("a")
		resp := b.must(b.do("", "Accept", acceptProto))
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 500 {
			b.Errorf("list: got %d, %v, want 500", resp.StatusCode, err)
		}
		resp = b.must(b.do("watch=1", "Accept", acceptProto))
		body, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(body), "ERROR") || !strings.Contains(string(body), "no such field") {
			b.Errorf("watch: got %q, %v, want an ERROR event", body, err)
		}
	})
}
