package serve_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/serve"
)

// A lazy is a client that takes nothing before go is closed.
type lazy struct {
	*httptest.ResponseRecorder
	begin chan struct{}
}

func (l *lazy) Write(data []byte) (int, error) {
	<-l.begin
	return l.ResponseRecorder.Write(data)
}

// The rows of a table are made as the client takes them, in whatever way they are sent, and the
// table has all of them.
func TestTableIsStreamed(t *testing.T) {
	const objects, size = 2000, 1000
	for _, encoding := range []string{"", "gzip"} {
		for _, include := range []string{"None", "Metadata", "Object"} {
			synctest.Test(t, func(t *testing.T) {
				var made atomic.Int64
				r := widgets
				r.Columns = []serve.Column[*Widget]{{Name: "Long", Value: func(w *Widget) serve.Cell {
					made.Add(1)
					return serve.Text(strings.Repeat("x", size) + w.Name)
				}}}
				var all []*Widget
				for n := range objects {
					all = append(all, newWidget(name(numbered(n)), n))
				}
				h := handleMemory(t, serve.Options{}, lw.NewMemory(all...), r).h
				w := &lazy{httptest.NewRecorder(), make(chan struct{})}
				req := httptest.NewRequest("GET", path+"?includeObject="+include, nil)
				req.Header.Set("Accept", asTable)
				req.Header.Set("Accept-Encoding", encoding)
				go h.ServeHTTP(w, req)
				synctest.Wait()
				// What is compressed comes to the client later.
				if n := made.Load(); n == 0 || n > 300 && encoding == "" {
					t.Errorf("%s: %d rows are made for a client that takes nothing", include, n)
				}
				close(w.begin)
				synctest.Wait()
				var body io.Reader = w.Body
				if w.Header().Get("Content-Encoding") != encoding || w.Header().Get("Content-Length") != "" {
					t.Errorf("the headers %v", w.Header())
				}
				if encoding != "" {
					z, err := gzip.NewReader(w.Body)
					noErr(t, err)
					body = z
				}
				data, err := io.ReadAll(body)
				noErr(t, err)
				var table metav1.Table
				if err := json.Unmarshal(data, &table); err != nil || made.Load() != objects {
					t.Fatalf("%v, %d rows were made", err, made.Load())
				}
				var got, want []string
				for _, row := range table.Rows {
					got = append(got, row.Cells[0].(string)+" "+strings.TrimLeft(row.Cells[1].(string), "x"))
				}
				for n := range objects {
					want = append(want, numbered(n)+" "+strings.TrimLeft(numbered(n), "x"))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				if s := h.Status()[0]; s.Lists != 1 {
					t.Errorf("%d lists", s.Lists)
				}
			})
		}
	}
}

// A row that cannot be made is an error of the list as long as nothing is sent. Later it breaks the
// answer off, and the program is told.
func TestTableFails(t *testing.T) {
	for _, objects := range []int{3, 3000} {
		told := 0
		r := widgets
		r.Columns = []serve.Column[*Widget]{{Name: "Size", Value: func(w *Widget) serve.Cell {
			if w.Size == objects-1 {
				panic("no cell")
			}
			return serve.Text(strings.Repeat("x", 100))
		}}}
		inBubble(t, serve.Options{OnError: func(err error) {
			if strings.Contains(err.Error(), "no cell") {
				told++
			}
		}}, func(b *bubble) {
			var all []*Widget
			for n := range objects {
				all = append(all, newWidget(name(numbered(n)), n))
			}
			b.memory(lw.NewMemory(all...), r)
			resp := b.send(b.ctx, "GET", path, "", "Accept", asTable)
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if objects == 3 && (resp.StatusCode != http.StatusInternalServerError || err != nil || !strings.Contains(string(data), "no cell")) {
				t.Errorf("%d objects: %s %v %s", objects, resp.Status, err, data)
			}
			if objects != 3 && (resp.StatusCode != http.StatusOK || err == nil || told != 1) {
				t.Errorf("%d objects: %s %v, told %d times", objects, resp.Status, err, told)
			}
		})
	}
}
