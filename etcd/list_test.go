package etcd_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

// TestList: what a list has, and what the server is asked for it.
func TestList(t *testing.T) {
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		f.write("ns/a", `{"labels":{"on":"1"}}`)
		f.write("ns/b", `garbage`, "other/a", `{}`)
		f.write("ns/a", "", "ns/c", `null`, "x/y/z", `{}`, "nt/a", `{"labels":{"on":"2"}}`)
		for _, tt := range []struct {
			opts metav1.ListOptions
			want []string
			at   string
			read string
		}{
			{metav1.ListOptions{}, []string{"ns/b*", "ns/c*", "nt/a", "other/a", "/x/y/z*"}, "4", "/w/ to /w0"},
			{metav1.ListOptions{ResourceVersion: "0"}, []string{"ns/b*", "ns/c*", "nt/a", "other/a", "/x/y/z*"}, "4",
				"/w/ to /w0 of one member"},
			{metav1.ListOptions{ResourceVersion: "3"}, []string{"ns/b*", "ns/c*", "nt/a", "other/a", "/x/y/z*"}, "4",
				"/w/ to /w0"},
			{metav1.ListOptions{ResourceVersion: "4", ResourceVersionMatch: notOlder}, []string{"ns/b*", "ns/c*", "nt/a",
				"other/a", "/x/y/z*"}, "4", "/w/ to /w0"},
			{metav1.ListOptions{ResourceVersion: "3", ResourceVersionMatch: exact}, []string{"ns/a", "ns/b*", "other/a"}, "3",
				"/w/ to /w0 at 3"},
			{metav1.ListOptions{FieldSelector: "metadata.namespace=ns"}, []string{"ns/b*", "ns/c*"}, "4", "/w/ns/ to /w/ns0"},
			{metav1.ListOptions{FieldSelector: "metadata.namespace=ns,metadata.name=b"}, []string{"ns/b*"}, "4", "/w/ns/b"},
			{metav1.ListOptions{FieldSelector: "metadata.name=a"}, []string{"nt/a", "other/a"}, "4", "/w/ to /w0"},
			{metav1.ListOptions{FieldSelector: "metadata.name!=a"}, []string{"ns/b*", "ns/c*", "/x/y/z*"}, "4", "/w/ to /w0"},
			{metav1.ListOptions{LabelSelector: "on=2"}, []string{"ns/b*", "ns/c*", "nt/a", "/x/y/z*"}, "4", "/w/ to /w0"},
			{metav1.ListOptions{LabelSelector: "!on", FieldSelector: "metadata.name!=b"},
				[]string{"ns/c*", "other/a", "/x/y/z*"}, "4", "/w/ to /w0"},
			{metav1.ListOptions{ShardSelector: "none that can be read"}, []string{"ns/b*", "ns/c*", "nt/a", "other/a",
				"/x/y/z*"}, "4", "/w/ to /w0"},
		} {
			got, meta, err := f.list(c, tt.opts)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil || meta.ResourceVersion != tt.at ||
				meta.Continue != "" || meta.RemainingItemCount != nil {
				t.Errorf("%v: %v, %v (-want +got):\n%s", tt.opts, meta, err, diff)
			}
			rig.Same(t, fmt.Sprintf("%v: the reads", tt.opts), []string{tt.read}, f.asked())
		}
	})
	bubble(t, func(t *testing.T, f *fake) {
		c := collection(t, f, &etcd.Options[*item]{ClusterScoped: true})
		f.write("a", `{}`, "ab", `{}`, "b/c", `{}`)
		for selector, want := range map[string][2]string{
			"":                                    {"[/a /ab /b/c*]", "/w/ to /w0"},
			"metadata.name=a":                     {"[/a]", "/w/a"},
			"metadata.namespace=ns":               {"[]", "/w/ to /w0"},
			"metadata.namespace=,metadata.name=a": {"[/a]", "/w/a"},
		} {
			got, _, err := f.list(c, metav1.ListOptions{FieldSelector: selector})
			if fmt.Sprint(got) != want[0] || err != nil || fmt.Sprint(f.asked()) != "["+want[1]+"]" {
				t.Errorf("%q: %v, %v", selector, got, err)
			}
		}
	})
}

// An unlabeled object has no labels.
type unlabeled struct {
	lw.Meta `json:"metadata"`
}

// TestOddKeys: a key of another shape is an error of an object that has a name, in a list and in a
// watch.
func TestOddKeys(t *testing.T) {
	for scoped, want := range map[bool][]string{
		false: {"//w/*", "//x*", "/alone*", "/a/*", "/a/b/c*", "a/b"},
		true:  {"//w/*", "//x*", "/alone", "/a/*", "/a/b/c*", "/a/b*"},
	} {
		bubble(t, func(t *testing.T, f *fake) {
			c := collection(t, f, &etcd.Options[*item]{ClusterScoped: scoped})
			begin := f.write("x/x", "")
			for _, key := range []string{"", "/x", "alone", "a/", "a/b/c", "a/b"} {
				f.write(key, `{}`)
			}
			listed, _, err := f.list(c, metav1.ListOptions{})
			slices.Sort(listed)
			var seen []string
			ended := c.Watch(within(t), metav1.ListOptions{ResourceVersion: begin}, func(ev lw.WatchEvent[*item]) error {
				seen = append(seen, nameOf(ev.Object, ev.Err))
				if name := strings.TrimSuffix(seen[len(seen)-1], "*"); name != ev.Key().String() {
					t.Errorf("the event of %s is of %s", name, ev.Key())
				}
				if ev.Err != nil && strings.Contains(ev.Err.Error(), "/namespace/name") == scoped {
					t.Error(ev.Err)
				}
				if len(seen) == len(want) {
					return errEnough
				}
				return nil
			})
			if diff := cmp.Diff(want, seen); diff != "" || ended != errEnough {
				t.Errorf("the watch: %v (-want +got):\n%s", ended, diff)
			}
			sorted := slices.Sorted(slices.Values(want))
			if diff := cmp.Diff(sorted, listed); diff != "" || err != nil {
				t.Errorf("the list: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestOptions: what cannot be listed or watched is refused, and nobody is asked.
func TestOptions(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		const notOlder = metav1.ResourceVersionMatchNotOlderThan
		internal := func(err error) bool { return apierrors.IsInternalError(err) || code(err) == 500 }
		for _, tt := range []struct {
			opts            metav1.ListOptions
			listed, watched func(error) bool
		}{
			{metav1.ListOptions{SendInitialEvents: new(true)}, apierrors.IsInvalid, apierrors.IsInvalid},
			{metav1.ListOptions{SendInitialEvents: new(true), ResourceVersionMatch: notOlder}, apierrors.IsInvalid,
				apierrors.IsInvalid},
			{metav1.ListOptions{SendInitialEvents: new(false)}, apierrors.IsInvalid, apierrors.IsInvalid},
			{metav1.ListOptions{ResourceVersion: "x"}, apierrors.IsBadRequest, internal},
			{metav1.ListOptions{ResourceVersion: "5", FieldSelector: "spec.x=1"}, apierrors.IsBadRequest,
				apierrors.IsBadRequest},
			{metav1.ListOptions{ResourceVersion: "5", LabelSelector: "=="}, apierrors.IsBadRequest, apierrors.IsBadRequest},
		} {
			got, _, listed := f.list(f.collection(0), tt.opts)
			told, watched := f.watch(f.collection(0), tt.opts, 1)
			if !tt.listed(listed) || !tt.watched(watched) || len(got)+len(told)+len(f.asked()) > 0 {
				t.Errorf("%v: listed %v, %v; watched %v, %v", tt.opts, got, listed, told, watched)
			}
		}
	})
}

// TestListErrors: lists that are refused or end early.
func TestListErrors(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		f.write("ns/a", `{}`, "ns/b", `{}`, "ns/c", `{}`)
		bare := collection[*unlabeled](t, f, nil)
		if _, err := bare.List(t.Context(), metav1.ListOptions{LabelSelector: "a"}, nil); !apierrors.IsBadRequest(err) {
			t.Errorf("labels of what has none: %v", err)
		}
		// An error of yield is returned as it is, and ends the list; so does the end of the context.
		n := 0
		_, err := c.List(t.Context(), metav1.ListOptions{Limit: 1}, func(*item, error) error { n++; return errEnough })
		if err != errEnough || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		because := errors.New("because")
		n = 0
		_, err = c.List(ctx, metav1.ListOptions{}, func(*item, error) error { n++; cancel(because); return nil })
		if err != because || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		// A member that is older than what was asked for.
		f.script(func(*pb.RangeRequest) (*pb.RangeResponse, error) { return &pb.RangeResponse{Header: header(10)}, nil }, nil)
		for version, want := range map[string]bool{"": false, "0": false, "9": false, "10": false, "11": true, "50": true} {
			if _, _, err := f.list(c, metav1.ListOptions{ResourceVersion: version}); tooLarge(err) != want || !want &&
				err != nil {
				t.Errorf("not older than %q, of a server at 10: %v", version, err)
			}
		}
	})
}

// TestPages: pages show one state, are full as long as there is something, and say what is behind.
func TestPages(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		f.write("ns/a", `{}`, "ns/b", `{}`, "ns/c", `garbage`, "ns/d", `{}`, "other/a", `{}`)
		for _, tt := range []struct {
			opts  metav1.ListOptions
			want  []string // each page, and how many are behind it
			reads []string
		}{
			{metav1.ListOptions{Limit: 2}, []string{"[ns/a ns/b] 3", "[ns/c* ns/d] 1", "[other/a]"},
				[]string{"/w/ to /w0 limit 2", "/w/ns/b\x00 to /w0 limit 2 at 2", "/w/ns/d\x00 to /w0 limit 2 at 2"}},
			{metav1.ListOptions{Limit: 5}, []string{"[ns/a ns/b ns/c* ns/d other/a]"}, []string{"/w/ to /w0 limit 5"}},
			{metav1.ListOptions{Limit: -1}, []string{"[ns/a ns/b ns/c* ns/d other/a]"}, []string{"/w/ to /w0"}},
			{metav1.ListOptions{Limit: 3, FieldSelector: "metadata.namespace=ns"}, []string{"[ns/a ns/b ns/c*] 1", "[ns/d]"},
				[]string{"/w/ns/ to /w/ns0 limit 3", "/w/ns/c\x00 to /w/ns0 limit 3 at 2"}},
			{metav1.ListOptions{Limit: 2, FieldSelector: "metadata.name=a"}, []string{"[ns/a other/a]"},
				[]string{"/w/ to /w0 limit 2", "/w/ns/b\x00 to /w0 limit 2 at 2", "/w/ns/d\x00 to /w0 limit 2 at 2"}},
			{metav1.ListOptions{Limit: 1, FieldSelector: "metadata.name!=b"}, []string{"[ns/a]", "[ns/c*]", "[ns/d]",
				"[other/a]"},
				[]string{"/w/ to /w0 limit 1", "/w/ns/a\x00 to /w0 limit 1 at 2", "/w/ns/b\x00 to /w0 limit 1 at 2",
					"/w/ns/c\x00 to /w0 limit 1 at 2", "/w/ns/d\x00 to /w0 limit 1 at 2"}},
			{metav1.ListOptions{Limit: 2, FieldSelector: "metadata.namespace=ns,metadata.name!=b"},
				[]string{"[ns/a ns/c*]", "[ns/d]"},
				[]string{"/w/ns/ to /w/ns0 limit 2", "/w/ns/b\x00 to /w/ns0 limit 2 at 2", "/w/ns/c\x00 to /w/ns0 limit 2 at 2"}},
			{metav1.ListOptions{Limit: 1, LabelSelector: "!on"}, []string{"[ns/a]", "[ns/b]", "[ns/c*]", "[ns/d]", "[other/a]"},
				[]string{"/w/ to /w0 limit 1", "/w/ns/a\x00 to /w0 limit 1 at 2", "/w/ns/b\x00 to /w0 limit 1 at 2",
					"/w/ns/c\x00 to /w0 limit 1 at 2", "/w/ns/d\x00 to /w0 limit 1 at 2"}},
			{metav1.ListOptions{Limit: 1, FieldSelector: "metadata.namespace=ns,metadata.name=b"}, []string{"[ns/b]"},
				[]string{"/w/ns/b limit 1"}},
		} {
			begun := f.Save()
			var got []string
			for range 9 {
				keys, meta, err := f.list(c, tt.opts)
				if err != nil || meta.ResourceVersion != "2" {
					t.Errorf("%v: %v, %v", tt.opts, meta, err)
				}
				text := fmt.Sprint(keys)
				if n := meta.RemainingItemCount; n != nil {
					text += fmt.Sprint(" ", *n)
				}
				got = append(got, text)
				if tt.opts.Continue = meta.Continue; meta.Continue == "" {
					break
				}
				f.write("ns/0", `{}`, "other/z", `{}`, "ns/b", "") // no page has it
				tt.opts.ResourceVersion = "0"                      // is allowed
			}
			rig.Same(t, fmt.Sprint(tt.opts), tt.want, got)
			rig.Same(t, fmt.Sprintf("%v: the reads", tt.opts), tt.reads, f.asked())
			f.Restore(begun)
		}
	})
}

// TestTokens: a token that is none, or one of another list. It never leads out of the selected
// keys.
func TestTokens(t *testing.T) {
	token := func(revision, next string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"rev":` + revision + `,"next":"` +
			base64.StdEncoding.EncodeToString([]byte(next)) + `"}`))
	}
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		f.write("a/a", `{}`, "ns/a", `{}`, "ns/b", `{}`, "z/a", `{}`)
		f.write2("/wz", `{}`)
		for _, tt := range []struct {
			token, fields string
			want          string
			reads         []string
		}{
			{token("2", "/w/ns/b"), "", "[ns/b z/a]", []string{"/w/ns/b to /w0 at 2"}},
			{token("2", "/w/"), "", "[a/a ns/a ns/b z/a]", []string{"/w/ to /w0 at 2"}},
			{token("2", "/w/a/"), "metadata.namespace=ns", "[ns/a ns/b]", []string{"/w/ns/ to /w/ns0 at 2"}},
			{token("2", "/w/ns/b"), "metadata.namespace=ns", "[ns/b]", []string{"/w/ns/b to /w/ns0 at 2"}},
			{token("2", "/w/z/a"), "metadata.namespace=ns", "[]", nil},
			{token("2", "/w/ns0"), "metadata.namespace=ns", "[]", nil},
			{token("2", "/w/ns/b"), "metadata.namespace=ns,metadata.name=a", "[]", nil},
			{token("2", "/w/ns/a"), "metadata.namespace=ns,metadata.name=a", "[ns/a]", []string{"/w/ns/a at 2"}},
			{token("2", "/w/a/a"), "metadata.namespace=ns,metadata.name=a", "[ns/a]", []string{"/w/ns/a at 2"}},
		} {
			got, meta, err := f.list(c, metav1.ListOptions{Continue: tt.token, FieldSelector: tt.fields})
			if err != nil || fmt.Sprint(got) != tt.want || meta.ResourceVersion != "2" || meta.Continue != "" {
				t.Errorf("%s of %q: %v, %v, %v", tt.token, tt.fields, got, meta, err)
			}
			rig.Same(t, fmt.Sprintf("%s of %q: the reads", tt.token, tt.fields), tt.reads, f.asked())
		}
		for what, bad := range map[string]string{
			"no base64": "?", "no JSON": "eA", "another prefix": token("2", "/v/a"), "a prefix of it": token("2", "/w"),
			"no revision": token("0", "/w/a"), "a revision that is none": token("-1", "/w/a"),
		} {
			if got, _, err := f.list(c, metav1.ListOptions{Continue: bad}); !apierrors.IsBadRequest(err) ||
				len(got)+len(f.asked()) > 0 {
				t.Errorf("%s: %v, %v", what, got, err)
			}
		}
		if _, _, err := f.list(c, metav1.ListOptions{Continue: token("2", "/w/a"),
			ResourceVersion: "2"}); !apierrors.IsBadRequest(err) {
			t.Errorf("a token and a version: %v", err)
		}
		if _, _, err := f.list(c, metav1.ListOptions{Continue: token("99", "/w/a")}); !tooLarge(err) {
			t.Errorf("a token of a revision that there is not: %v", err)
		}
		f.script(func(*pb.RangeRequest) (*pb.RangeResponse, error) { return nil, rpctypes.ErrGRPCCompacted }, nil)
		if _, _, err := f.list(c, metav1.ListOptions{Continue: token("2", "/w/a")}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a token of a revision that is gone: %v", err)
		}
	})
}

// TestHad: whether the server had an object at a version.
func TestHad(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		f.write("ns/a", `{}`)                                               // 2
		f.write("ns/a", `{"n":1}`, "ns/own", `{"metadata":{"uid":"mine"}}`) // 3
		f.write("ns/a", "", "ns/own", `{"n":1}`)                            // 4
		f.write("ns/a", `{}`, "ns/own", `garbage`)                          // 5
		for _, tt := range []struct {
			name, uid, is, at string
			want              bool
		}{
			{"a", "", "2", "2", true}, {"a", "2", "2", "2", true}, {"a", "3", "2", "2", false}, {"a", "", "3", "2", false},
			{"a", "2", "3", "3", true}, {"a", "2", "2", "3", false}, {"a", "2", "3", "4", false}, {"a", "5", "5", "5", true},
			{"a", "2", "5", "5", false},
			{"own", "mine", "3", "3", true}, {"own", "", "3", "3", true}, {"own", "yours", "3", "3", false},
			{"own", "mine", "4", "4", false},
			{"own", "3", "4", "4", true}, {"own", "mine", "5", "5", false}, {"own", "", "5", "5", true},
			{"own", "3", "5", "5", true},
			{"none", "", "2", "5", false},
		} {
			m := lw.Meta{Namespace: "ns", Name: tt.name, UID: types.UID(tt.uid), ResourceVersion: tt.is}
			if got, err := c.Hints().StillHas(t.Context(), m, tt.at); got != tt.want || err != nil {
				t.Errorf("%v: %v, %v", tt, got, err)
			}
		}
		if _, err := c.Hints().StillHas(t.Context(), lw.Meta{Namespace: "ns", Name: "a"}, "x"); !apierrors.IsBadRequest(err) {
			t.Errorf("at x: %v", err)
		}
	})
}
