package source_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/rig"
)

// The level, the message and the attributes of every sort of record, and the table of
// docs/operate.md, which has these and no others.
func TestLogRecords(t *testing.T) {
	var got []string
	synctest.Test(t, func(t *testing.T) {
		var book bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&book, nil))
		src := &rig.Script{
			// After a minute a failure that goes on is logged again.
			Lists: append(slices.Repeat([]rig.Reply{{Err: syscall.ECONNREFUSED}}, 100), rig.List("10", rig.Stamped("b", 1, "9"))),
			Watches: []rig.Stream{
				{After: time.Second, Err: syscall.ECONNREFUSED}, {After: 2 * time.Minute, Err: syscall.ECONNREFUSED},
				{Events: []lw.WatchEvent[*rig.Widget]{
					{Type: watch.Modified, ResourceVersion: "21", Err: &lw.Error{Op: "decode", Key: rig.Key("b"), Err: errors.New("the size is a text")}},
				}, Open: true},
			},
		}
		rig.RunFor(t, src, &lw.Options{
			Name: "parts", Logger: logger, List: lw.ListPages, PageSize: -1, WatchTimeout: 3 * time.Hour, Backoff: func(int) time.Duration { return time.Second },
		}, 10*time.Minute)

		server := lw.NewMemory(rig.NewWidget("a", 1), rig.NewWidget("b", 1))
		inf := lw.NewInformer(server, &lw.Options{Name: "mutated", Logger: logger, DetectMutation: true})
		g := lw.NewGraph(&lw.GraphOptions{Name: "g", Logger: logger})
		lw.Derive(g, inf, rig.BySize, "bySize")
		rig.Start(t, inf)
		rig.Start(t, g)
		rig.Sleep(time.Minute + 500*time.Millisecond) // between two looks at the cache, which come each second
		w, _ := inf.Store().Get(rig.Key("a"))
		w.Size = 2
		rig.Create(t, server, "c", 3) // an event before the next look: the race detector sees that the look comes later
		rig.Sleep(time.Hour)
		got = records(t, &book)
	})
	want := []string{
		"INFO|lw: NAME: synced|informer op objects version failures took",
		"INFO|lw: NAME: works again|informer failures took",
		"WARN|lw: GRAPH/COLLECTION: derive of KEY failed|graph collection op key error",
		"WARN|lw: NAME: OP failed|informer op error failures for",
		"WARN|lw: NAME: OP of KEY failed|informer op key error failures for",
		"WARN|lw: NAME: OP still fails|informer op error failures for",
		"WARN|lw: NAME: mutation of KEY failed|informer op key error",
		"WARN|lw: informer NAME: OPTION MISTAKE|value",
	}
	rig.Same(t, "records", want, got)
	page, err := os.ReadFile("../../docs/operate.md")
	rig.OK(t, err)
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| (INFO|WARN) \\| `(.*?)` \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, m[1]+"|"+m[2]+"|"+strings.NewReplacer("`", "", ",", "").Replace(m[3]))
	}
	slices.Sort(rows)
	rig.Same(t, "the table of docs/operate.md", want, rows)
}

// records returns the sorts of records in book, sorted: level, message and attributes in order.
func records(t *testing.T, book *bytes.Buffer) []string {
	t.Helper()
	general := strings.NewReplacer("parts", "NAME", "mutated", "NAME", "g/bySize", "GRAPH/COLLECTION", "list", "OP", "watch", "OP", "decode", "OP",
		"default/size1", "KEY", "default/a", "KEY", "default/b", "KEY", "PageSize is negative, and the default is used", "OPTION MISTAKE")
	var sorts []string
	for line := range bytes.Lines(book.Bytes()) {
		var record struct{ Level, Msg string }
		rig.OK(t, json.Unmarshal(line, &record))
		sorts = append(sorts, fmt.Sprintf("%s|%s|%s", record.Level, general.Replace(record.Msg), strings.Join(attributes(t, line), " ")))
	}
	slices.Sort(sorts)
	return slices.Compact(sorts)
}

// attributes returns the names of the attributes of a record in JSON, in their order.
func attributes(t *testing.T, line []byte) (names []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	for depth, name := 0, true; ; {
		token, err := d.Token()
		if err == io.EOF {
			return names
		}
		rig.OK(t, err)
		switch delim, ok := token.(json.Delim); {
		case ok && (delim == '{' || delim == '['):
			depth++
			name = true
		case ok:
			depth--
			name = true
		case depth == 1:
			if text, ok := token.(string); name && ok && !slices.Contains([]string{"time", "level", "msg"}, text) {
				names = append(names, text)
			}
			name = !name
		}
	}
}
