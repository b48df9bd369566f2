package hook

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
)

// An entry is an informer, a controller or a reflector.
type entry struct {
	kind, of string
	why      string                   // why lw has not taken it over; "": it has
	synced   func() bool              // nil: that is not known
	status   func() (lw.Status, bool) // nil: lw has not taken it over
	count    func() int               // of its objects; nil: that is not known
	syncedAt time.Duration            // since the process began; guarded by state.mu
}

// typeOf names what an informer is of.
func typeOf(example kruntime.Object, description string) string {
	if u, ok := example.(*unstructured.Unstructured); ok && u != nil && u.GetKind() != "" {
		return u.GroupVersionKind().GroupKind().String()
	}
	if m, ok := example.(*metav1.PartialObjectMetadata); ok && m != nil && m.Kind != "" {
		return m.GroupVersionKind().GroupKind().String() + " metadata"
	}
	if description != "" {
		return description
	}
	return strings.TrimPrefix(fmt.Sprint(reflect.TypeOf(example)), "*")
}

// made notes e for the report, if there is one.
func (s *state) made(e *entry) {
	if s.file == "" {
		return
	}
	if s.test {
		line := fmt.Sprintf("%s\t%s\t%s\t%s\n", filepath.Base(os.Args[0]), e.kind, e.of, cmp.Or(e.why, "lw"))
		if err := appendTo(s.file, line); err != nil {
			fmt.Fprintln(os.Stderr, "lwbuild: LW_REPORT:", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.waiting = append(s.entries, e), true
}

func appendTo(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, line)
	return cmp.Or(err, f.Close())
}

// keepReport writes the report each second, and when asked says so: a process may end by a signal,
// or in os.Exit of any package, where nobody can write it. It returns when ctx is done.
func (s *state) keepReport(ctx context.Context, asked <-chan os.Signal) {
	var written time.Time
	for {
		wait := time.Second
		if s.look() {
			wait = 10 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return
		case <-asked:
			runtime.GC() // the live heap is that of the last collection
			s.mu.Lock()
			s.asked = true
			s.mu.Unlock()
			written = time.Time{}
		case <-time.After(wait):
		}
		if time.Since(written) >= time.Second {
			s.write()
			written = time.Now()
		}
	}
}

// look notes which informers have synced, and when all had, and reports whether some have not.
func (s *state) look() (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if e.syncedAt == 0 && e.synced != nil {
			if e.synced() {
				e.syncedAt = time.Since(s.began)
			} else {
				more = true
			}
		}
	}
	if s.waiting && !more {
		user, system, _ := usage()
		s.all.after, s.all.cpu = time.Since(s.began), user+system
	}
	s.waiting = more
	return more
}

// write replaces the file by the report of now. A reader sees the one before or this one, whole.
func (s *state) write() {
	s.look()
	tmp := s.file + ".new"
	err := os.WriteFile(tmp, []byte(s.page()), 0o666)
	if err == nil {
		err = os.Rename(tmp, s.file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lwbuild: LW_REPORT:", err)
	}
}

// page returns the report, in Markdown.
func (s *state) page() string {
	var b strings.Builder
	side := "lw"
	if s.off {
		side = "client-go (LW=off)"
	}
	user, system, peak := usage()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	fmt.Fprintf(&b, "# Informers of %s\n\nside: %s\nversions: %s\nafter: %.1f s\nCPU: %.2f s (user %.2f, system %.2f)\nlive heap: %.1f MB\npeak memory: %.1f MB\n",
		filepath.Base(os.Args[0]), side, s.raised, time.Since(s.began).Seconds(), (user + system).Seconds(), user.Seconds(), system.Seconds(),
		float64(live[0].Value.Uint64())/1e6, float64(peak)/1e6)
	s.mu.Lock()
	if s.all.after > 0 && !s.waiting {
		fmt.Fprintf(&b, "all synced after: %.2f s\nCPU until all had synced: %.2f s\nCPU since then: %.2f s\n", s.all.after.Seconds(), s.all.cpu.Seconds(), (user + system - s.all.cpu).Seconds())
	}
	if s.asked {
		b.WriteString("The heap is that of a collection for this report.\n")
	}
	entries := slices.Clone(s.entries)
	s.mu.Unlock()
	b.WriteString("\nCPU, heap and memory are those of the whole process. What is read of a resource:\n\n| resource | lists | watches | events | bytes |\n|---|---|---|---|---|\n")
	for _, r := range s.wire.rows() {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", r.name, r.lists.Load(), r.watches.Load(), r.events.Load(), r.bytes.Load())
	}
	b.WriteString("\n| of | is | store of | decoded by | objects | events | relists | synced after |\n|---|---|---|---|---|---|---|---|\n")
	slices.SortStableFunc(entries, func(a, b *entry) int { return cmp.Compare(a.of, b.of) })
	var named []string
	for _, e := range entries {
		row, why := s.row(e)
		b.WriteString(row)
		if why != "" {
			named = append(named, fmt.Sprintf("- %s of %s: %s\n", e.kind, e.of, why))
		}
	}
	if len(named) > 0 {
		b.WriteString("\nNot lw's:\n\n" + strings.Join(named, ""))
	}
	return b.String()
}

// row returns the row of e, and why client-go does its work or a part of it, or "".
func (s *state) row(e *entry) (row, why string) {
	store, decoder, objects, events, relists, synced := "lw", "?", "?", "?", "?", "?"
	if e.why != "" {
		store, decoder, why = "client-go", "client-go", e.why
	} else if status, ok := e.status(); ok {
		decoder, objects = cmp.Or(status.Decoder, "?"), fmt.Sprint(status.Objects)
		if by, reason, ok := strings.Cut(decoder, ": "); ok {
			decoder, why = by, by+" decodes: "+reason
		} else if decoder == "client-go" {
			why = "client-go decodes"
		} else if decoder == "?" {
			why = "nothing was decoded: " + cmp.Or(status.Phase, "idle")
		}
		var sum [2]uint64
		for of, n := range status.Events {
			if of != "bookmark" {
				sum[0] += n
			}
		}
		for _, n := range status.ListCauses {
			sum[1] += n
		}
		events, relists = fmt.Sprint(sum[0]), fmt.Sprint(max(sum[1], 1)-1)
	}
	if e.count != nil {
		objects = fmt.Sprint(e.count())
	} else if e.kind == "reflector" {
		objects = "?" // its store is the program's
	}
	s.mu.Lock()
	if e.syncedAt > 0 {
		synced = fmt.Sprintf("%.2f s", e.syncedAt.Seconds())
	}
	s.mu.Unlock()
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", e.of, e.kind, store, decoder, objects, events, relists, synced), why
}
