package simulate

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/go-lw/lw"
)

func TestMain(m *testing.M) {
	Silence()
	os.Exit(m.Run())
}

const patience = time.Hour

// requests returns the totals of a record by kind.
func requests(r Record) map[string]int {
	totals := map[string]int{}
	for k := range kinds {
		if n := r.Total(k); n > 0 {
			totals[k.String()] = n
		}
	}
	return totals
}

// TestStart checks which requests each client makes of a server that has room for all.
func TestStart(t *testing.T) {
	const n = 20
	for _, test := range []struct {
		name   string
		client Client
		want   map[string]int
	}{
		{"stream", LW(lw.Options{List: lw.ListStream}), map[string]int{"stream": n}},
		{"pages", LW(lw.Options{List: lw.ListPages}), map[string]int{"page": 4 * n, "watch": n}},
		{"whole", LW(lw.Options{List: lw.ListWhole}), map[string]int{"page": n, "watch": n}},
		{"client-go", ClientGo(), map[string]int{"stream": n}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Start{Model: Kube(4, 2000), Clients: n, Client: test.client, Within: time.Second, Wait: patience}.Run(t)
			if diff := cmp.Diff(test.want, requests(r)); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
			if r.Watching == 0 || len(r.Served) != n || r.Busy > 0 {
				t.Errorf("all watch after %v, %d began, %d answers were busy", r.Watching, len(r.Served), r.Busy)
			}
		})
	}
}

// TestCost checks what one streamed list costs the server, and how long it takes.
func TestCost(t *testing.T) {
	m := Kube(4, 1000)
	m.Events = 0
	r := Start{Model: m, Clients: 1, Client: LW(lw.Options{}), Wait: patience}.Run(t)
	cpu := m.RequestCPU + m.ConnectCPU + 1000*m.StreamCPU
	if r.CPU != cpu {
		t.Errorf("CPU %v, want %v", r.CPU, cpu)
	}
	if want := int64(1000 * m.Bytes); r.Bytes != want {
		t.Errorf("%d bytes, want %d", r.Bytes, want)
	}
	// One request is served by one core at a time.
	want := m.RTT + cpu + time.Duration(1000*float64(m.Bytes)/m.Link*float64(time.Second))
	if diff := (r.Watching - want).Abs(); diff > time.Millisecond {
		t.Errorf("the list took %v, want %v", r.Watching, want)
	}
}

// TestSeatsAreKept checks that a server serves no more lists than it has seats, refuses those that
// find no place in the queue, and that all clients follow in the end.
func TestSeatsAreKept(t *testing.T) {
	for name, client := range map[string]Client{"lw": LW(lw.Options{}), "client-go": ClientGo()} {
		t.Run(name, func(t *testing.T) {
			m := Kube(2, 2000)
			m.Seats, m.Queue = 45, 10
			r := Start{Model: m, Clients: 50, Client: client, Within: time.Second, Wait: patience}.Run(t)
			if r.Watching == 0 {
				t.Error("some clients do not follow")
			}
			// A streamed list takes ten seats, and a page five.
			if r.Lists < 4 || r.Lists > 9 || r.Queue != 10 || r.Busy == 0 {
				t.Errorf("%d lists at a time, %d queued, %d refused", r.Lists, r.Queue, r.Busy)
			}
		})
	}
}

// TestRestart checks what clients ask of a server that comes back, with and without the versions of
// before.
func TestRestart(t *testing.T) {
	const n = 20
	for name, client := range map[string]Client{"lw": LW(lw.Options{}), "client-go": ClientGo()} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lost=%v", name, lost), func(t *testing.T) {
				r := Restart{Model: Kube(4, 1000), Clients: n, Client: client, Down: 5 * time.Second, Fills: 3 * time.Second,
					Lost: lost,
					Wait: patience, After: time.Minute}.Run(t)
				lists := 0
				if lost {
					lists = n
				}
				if r.Watching < 8*time.Second || r.Expired != lists || r.Total(Stream) < lists || lists == 0 && r.Total(Stream)+
					r.Total(Page) > 0 {
					t.Errorf("all watch after %v; %d versions were lost; requests %v", r.Watching, r.Expired, requests(r))
				}
				if r.Total(Refused) < n || r.Busy == 0 {
					t.Errorf("%d requests met no server, %d one that was not ready", r.Total(Refused), r.Busy)
				}
			})
		}
	}
}

// TestTakeOver checks that clients whose server dies while another one is there resume at once, and
// that lw asks a silent one for its version.
func TestTakeOver(t *testing.T) {
	const n = 20
	for _, test := range []struct {
		name   string
		events int
		lost   bool
		want   map[string]int
	}{
		{"events", 10, false, map[string]int{"watch": n}},
		{"silence", 0, false, map[string]int{"watch": 2 * n, "probe": n}},
		{"lost", 10, true, map[string]int{"watch": n, "stream": n}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := Kube(4, 1000)
			m.Events = test.events
			r := Restart{Model: m, Clients: n, Client: LW(lw.Options{}), Lost: test.lost, Wait: patience,
				After: 30 * time.Second}.Run(t)
			if diff := cmp.Diff(test.want, requests(r)); diff != "" {
				t.Errorf("requests (-want +got)\n%s", diff)
			}
			if r.Watching == 0 || r.Watching > 2*time.Second {
				t.Errorf("all watch after %v", r.Watching)
			}
		})
	}
}

// TestSpread checks that clients whose pauses have no random part ask together to the end of an
// outage, and that those of lw do not.
func TestSpread(t *testing.T) {
	const n = 200
	busiest := func(opts lw.Options) int {
		r := Restart{Model: Kube(4, 100), Clients: n, Client: LW(opts), Down: 2 * time.Minute, Wait: patience}.Run(t)
		return slices.Max(r.Requests()[60*tenths : 120*tenths])
	}
	exact := func(failures int) time.Duration { return min(time.Second<<failures, 30*time.Second) }
	if got := busiest(lw.Options{Backoff: exact}); got != n {
		t.Errorf("without a random part, %d of %d clients ask in one tenth of a second", got, n)
	}
	if got := busiest(lw.Options{}); got > n/10 { // 2 or 3 on average; the busiest of 600 tenths may have 12
		t.Errorf("with lw's backoff, %d of %d clients ask in one tenth of a second", got, n)
	}
}
