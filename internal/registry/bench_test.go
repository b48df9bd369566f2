package registry_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	. "github.com/go-lw/lw/internal/registry"
)

// BenchmarkWrites is the engine's share of a write of an object of 2 KiB.
func BenchmarkWrites(b *testing.B) {
	content := func(name string, n int) string {
		var lines strings.Builder
		for i := range 20 {
			fmt.Fprintf(&lines, `{"name":"container-%d","image":"registry.example.io/team/app-%d:v%d","args":["--port","80%d"]},`, i, i, n, i)
		}
		return fmt.Sprintf(`{"apiVersion":"example.io/v1","kind":"Thing","metadata":{"name":%q,"labels":{"app":"x","tier":"y"},"annotations":{"note":"some text"}},"size":%d,"tags":["a","b"],"items":[%s]}`,
			name, n, strings.TrimSuffix(lines.String(), ","))
	}
	two := [2]string{content("a", 1), content("a", 2)}
	type item struct {
		Name  string   `json:"name"`
		Image string   `json:"image"`
		Args  []string `json:"args"`
	}
	type thing struct {
		Full
		Items []item `json:"items"`
	}
	for kindName, typ := range map[string]*Type{"JSON": nil, "typed": typeOf[*thing](b)} {
		k := &Kind{Group: "example.io", Version: "v1", Plural: "things", Kind: "Thing", Type: typ}
		merge, apply := string(types.MergePatchType), string(types.ApplyYAMLPatchType)
		for _, w := range []struct {
			name string
			req  func(i int) Request
		}{
			{"create", func(i int) Request { return Request{Verb: Create, Body: []byte(content(fmt.Sprint("n", i), 1))} }},
			{"update", func(i int) Request { return Request{Verb: Update, Key: named("a"), Body: []byte(two[i%2])} }},
			{"merge patch", func(i int) Request {
				return Request{Verb: Patch, Key: named("a"), ContentType: merge, Body: fmt.Appendf(nil, `{"size":%d}`, i)}
			}},
			{"apply", func(i int) Request {
				return Request{Verb: Patch, Key: named("a"), ContentType: apply, Body: []byte(two[i%2]), Query: url.Values{"fieldManager": {"one"}, "force": {"true"}}}
			}},
			{"apply of two", func(i int) Request {
				return Request{Verb: Patch, Key: named("a"), ContentType: apply, Body: []byte(two[i/2%2]), Query: url.Values{"fieldManager": {[]string{"one", "two"}[i%2]}, "force": {"true"}}}
			}},
		} {
			b.Run(kindName+"/"+w.name, func(b *testing.B) {
				m := newMemory(k)
				mustCreate(b, m, two[0])
				b.ReportAllocs()
				b.SetBytes(int64(len(two[0])))
				for i := 0; b.Loop(); i++ {
					must(b, m, w.req(i+1))
				}
			})
		}
	}
}
