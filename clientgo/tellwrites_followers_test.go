package clientgo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/internal/request"
	"github.com/go-lw/lw/internal/verify/rig"
)

// A client of TellWrites does what the given client does, which stays as it is. Nil is
// http.DefaultClient.
func TestTellWritesClient(t *testing.T) {
	var sent []string
	to := func(name string) http.RoundTripper {
		return rig.RoundTrip(func(*http.Request) (*http.Response, error) {
			sent = append(sent, name)
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
		})
	}
	rig.Swap(t, &http.DefaultTransport, to("default"))
	own := to("own")
	for name, tt := range map[string]struct {
		client *http.Client
		want   string
	}{
		"nil":            {nil, "default"},
		"the default":    {http.DefaultClient, "default"},
		"no transport":   {&http.Client{Timeout: time.Minute}, "default"},
		"own transport":  {&http.Client{Transport: own, Timeout: time.Minute}, "own"},
		"told twice":     {clientgo.TellWrites(&http.Client{Transport: own, Timeout: time.Minute}), "own"},
		"told, captured": {clientgo.Capture(clientgo.TellWrites(&http.Client{Transport: own, Timeout: time.Minute})), "own"},
	} {
		given := tt.client
		if given == nil {
			given = http.DefaultClient
		}
		before := *given
		for _, other := range []*http.Client{nil, {}, clientgo.TellWrites(nil)} {
			sent = nil
			c := clientgo.TellWrites(tt.client, other)
			rig.Same(t, name+": its timeout", before.Timeout, c.Timeout)
			resp, err := c.Get("http://apiserver/api/v1/pods")
			rig.OK(t, err)
			rig.OK(t, resp.Body.Close())
			if diff := cmp.Diff([]string{tt.want}, sent); diff != "" {
				t.Errorf("%s: sent by (-want +got):\n%s", name, diff)
			}
		}
		if given.Timeout != before.Timeout || (given.Transport == nil) != (before.Transport == nil) {
			t.Errorf("%s: the client has changed", name)
		}
	}
}

// A write takes an object out of the selection of informers, and the next one brings it back, long
// before the watch has the first: each read shows what the last write has made of it.
func TestTellWritesLeavesSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTellServer(t, "application/json")
		pods := s.own.CoreV1().Pods("default")
		selected := func(o *metav1.ListOptions) { o.LabelSelector = "g=x" }
		url := "http://apiserver/api/v1/pods"
		all := map[string]content{
			"FromClient": contentOf(lw.FromClient(pods, selected)),
			"WithListOptions": contentOf(lw.WithListOptions[*corev1.Pod](&lw.HTTP[*corev1.Pod]{URL: url, Client: s.told},
				selected)),
			"the URL": contentOf(&lw.HTTP[*corev1.Pod]{URL: url + "?labelSelector=g%3Dx", Client: s.told}),
			"metadata": contentOf(&lw.HTTP[*metav1.PartialObjectMetadata]{URL: url + "?labelSelector=g%3Dx",
				Client: s.told}),
			"Transform": contentOf(lw.Transform(lw.FromClient(pods), func(p *corev1.Pod) (*corev1.Pod, error) {
				if p.Labels["g"] != "x" {
					return nil, nil
				}
				return p, nil
			})),
		}
		defer start(t, all)()
		p := pod("default", "a")
		ctx := t.Context()
		show := func(what, want string) {
			t.Helper()
			for name, c := range all {
				got := ""
				if obj, ok := c.objects()["a"].(lw.Identified); ok {
					got = obj.GetResourceVersion()
				}
				rig.Same(t, name+" shows after: "+what, want, got)
			}
		}
		write := func(label string) {
			t.Helper()
			p.Labels = map[string]string{"g": label}
			if p.ResourceVersion == "" {
				p = rig.Must[*corev1.Pod](t)(pods.Create(ctx, p, metav1.CreateOptions{}))
			} else {
				p = rig.Must[*corev1.Pod](t)(pods.Update(ctx, p, metav1.UpdateOptions{}))
			}
			want := p.ResourceVersion
			if label != "x" {
				want = ""
			}
			show(label, want)
		}
		for _, label := range []string{"x", "y", "x", "y", "z", "x"} {
			write(label)
		}
		time.Sleep(10 * watchDelay)
		show("the watch has all", p.ResourceVersion)
		write("y")
		rig.OK(t, pods.Delete(ctx, "a", metav1.DeleteOptions{}))
		show("the deletion", "")
		p = pod("default", "a")
		write("x")
		rig.OK(t, pods.Delete(ctx, "a", metav1.DeleteOptions{}))
		show("the second deletion", "")
		time.Sleep(10 * watchDelay)
		show("the watch has all", "")
		for name, c := range all {
			rig.Same(t, name+" is ahead", 0, c.Status().Ahead)
		}
	})
}

// What a client of metadata patches is told to informers of metadata; the others wait for the
// watch, but are told of what the patch has deleted.
func TestTellWritesOfMetadata(t *testing.T) {
	for name, accept := range map[string]string{"JSON": "application/json",
		"protobuf": "application/vnd.kubernetes.protobuf,application/json"} {
		rig.Subtest(t, name, func(t *testing.T) {
			s := newTellServer(t, accept)
			partial := rig.Must[metadata.Interface](t)(metadata.NewForConfigAndClient(s.config,
				s.told)).Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace("default")
			all := s.informers(t)
			defer start(t, all)()
			ctx := t.Context()
			p := pod("default", "a")
			p.Finalizers = []string{"example.com/stay"}
			rig.Must[*corev1.Pod](t)(s.own.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}))
			patch := func(text string) string {
				t.Helper()
				return rig.Must[*metav1.PartialObjectMetadata](t)(partial.Patch(ctx, "a", types.MergePatchType, []byte(text),
					metav1.PatchOptions{})).ResourceVersion
			}
			old := all["HTTP"].objects()["a"].(*corev1.Pod).ResourceVersion
			at := patch(`{"metadata":{"labels":{"v":"2"}}}`)
			for name, c := range all {
				want := old
				if strings.Contains(name, "metadata") {
					want = at
				}
				rig.Same(t, name, want, c.objects()["a"].(lw.Identified).GetResourceVersion())
			}
			fresh := s.informers(t)
			stop := start(t, fresh)
			for name, c := range fresh {
				if strings.Contains(name, "metadata") {
					rig.Same(t, name+", listed and told", c.objects(), all[name].objects())
				}
			}
			stop()
			rig.OK(t, partial.Delete(ctx, "a", metav1.DeleteOptions{}))
			patch(`{"metadata":{"finalizers":null}}`)
			for name, c := range all {
				rig.Same(t, name+" after the last finalizer", 0, len(c.objects()))
			}
			time.Sleep(10 * watchDelay)
		})
	}
}

// An answer that breaks off is told to nobody, and ends for the caller as it has ended.
func TestTellWritesBrokenAnswer(t *testing.T) {
	broken := errors.New("the line is broken")
	server := rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
		var body io.Reader = strings.NewReader(podJSON("default", "a", "7"))
		if r.Method != http.MethodGet {
			body = io.MultiReader(body, iotest.ErrReader(broken))
		}
		return &http.Response{StatusCode: 201, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(body)}, nil
	})
	client := clientgo.TellWrites(&http.Client{Transport: server})
	url := "https://server/api/v1/namespaces/default/pods"
	teller := &request.Teller{
		Tell:        func(*request.Answer) error { t.Error("it is told"); return nil },
		TellDeleted: func(types.NamespacedName, types.UID, string) error { t.Error("a deletion is told"); return nil },
	}
	follows := rig.Must[*http.Request](t)(http.NewRequestWithContext(request.WithTeller(t.Context(), teller),
		"GET", url, nil))
	rig.Must[*http.Response](t)(client.Do(follows)).Body.Close()
	r := rig.Must[*http.Request](t)(http.NewRequestWithContext(t.Context(), "POST", url, nil))
	resp := rig.Must[*http.Response](t)(client.Do(r))
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if string(body) != podJSON("default", "a", "7") || !errors.Is(err, broken) {
		t.Errorf("the caller has %q, %v", body, err)
	}
}

// An informer that cannot be told is logged once.
func TestTellWritesLogs(t *testing.T) {
	server := rig.RoundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 201, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(podJSON("default", "a", "7")))}, nil
	})
	client := clientgo.TellWrites(&http.Client{Transport: server})
	var book strings.Builder
	follows := request.WithTeller(t.Context(),
		&request.Teller{Tell: func(*request.Answer) error { return errors.New("no room") }})
	do := func(ctx context.Context, method string) {
		r := rig.Must[*http.Request](t)(http.NewRequestWithContext(ctx, method,
			"https://server/api/v1/namespaces/default/pods", nil))
		rig.Must[*http.Response](t)(client.Do(r)).Body.Close()
	}
	do(follows, "GET")
	do(loggedTo(t, &book), "POST")
	do(loggedTo(t, &book), "POST")
	rig.Same(t, book.String(), 1, strings.Count(book.String(), "no room"))
}
