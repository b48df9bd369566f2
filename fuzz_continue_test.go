package lw_test

import (
	"encoding/base64"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
)

// FuzzContinue lists on from tokens that nobody handed out. Each is refused with a status, or shows a part of one state, in order.
func FuzzContinue(f *testing.F) {
	m := lw.NewMemory(widget("a", 1), widget("b", 2), widget("c", 3))
	states := map[string][]string{}
	note := func() {
		var state []string
		for w := range m.All() {
			state = append(state, w.Name+"@"+w.ResourceVersion)
		}
		states[m.ResourceVersion()] = state
	}
	note()
	m.Compact()
	for _, change := range []func() error{
		func() error { return m.Delete(key("b")) },
		func() error { _, err := m.Create(widget("d", 4)); return err },
		func() error { _, err := m.Update(widget("a", 5)); return err },
	} {
		if err := change(); err != nil {
			f.Fatal(err)
		}
		note()
	}
	for _, token := range []string{
		`{"v":"meta.k8s.io/v1","rv":5,"start":"default/b\u0000"}`, `{"v":"meta.k8s.io/v1","rv":-1,"start":"default/a"}`,
		`{"v":"meta.k8s.io/v1","rv":2,"start":"default/a"}`, `{"v":"meta.k8s.io/v1","rv":99,"start":"x"}`,
		`{"v":"meta.k8s.io/v1","rv":0,"start":"a"}`, `{"v":"meta.k8s.io/v1","rv":-9,"start":"a"}`, `{"rv":5,"start":"a"}`,
		`{"v":"meta.k8s.io/v1","rv":5,"start":""}`, `{"v":"meta.k8s.io/v1","rv":18446744073709551615,"start":"a"}`, `{`, `null`, ``,
	} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(token)), int64(2))
		f.Add(token, int64(0))
	}
	f.Fuzz(func(t *testing.T, token string, limit int64) {
		var got []string
		meta, err := m.List(t.Context(), metav1.ListOptions{Continue: token, Limit: limit}, func(w *Widget, err error) error {
			got = append(got, w.Name+"@"+w.ResourceVersion)
			return err
		})
		if err != nil {
			if !apierrors.IsBadRequest(err) && !apierrors.IsResourceExpired(err) && !apierrors.IsTimeout(err) && !apierrors.IsInvalid(err) {
				t.Errorf("continue %q: %v", token, err)
			}
			return
		}
		state, ok := states[meta.ResourceVersion]
		if !ok {
			t.Fatalf("continue %q is at %q", token, meta.ResourceVersion)
		}
		at := 0
		if len(got) > 0 {
			at = slices.Index(state, got[0])
		}
		if at < 0 || len(got) > len(state)-at || !slices.Equal(got, state[at:at+len(got)]) {
			t.Errorf("continue %q lists %v of %v", token, got, state)
		}
		if limit > 0 && int64(len(got)) > limit || meta.Continue == "" && len(got) > 0 && at+len(got) != len(state) {
			t.Errorf("continue %q, limit %d, lists %v of %v and goes on with %q", token, limit, got, state, meta.Continue)
		}
	})
}
