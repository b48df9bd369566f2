package simulate

import (
	"sync"
	"time"
)

// A Kind is what a request asks for.
type Kind int

// The kinds of requests. A refused request has met no server.
const (
	Refused Kind = iota
	Stream       // a list as the initial events of a watch
	Page         // a page of a list, or a list in one response
	Probe        // a list of at most one object
	Watch
	kinds
)

func (k Kind) String() string {
	return [...]string{"refused", "stream", "page", "probe", "watch"}[k]
}

// A Record is what a server has seen since it was last cleared.
type Record struct {
	// Arrivals has the requests of each kind by the tenth of a second in which they came.
	Arrivals [kinds][]int
	Busy     int           // answers with 429 and Retry-After
	Expired  int           // watches that ended with 410
	Queue    int           // the longest queue of requests
	Lists    int           // the most lists that were served at the same time
	Bytes    int64         // of lists
	CPU      time.Duration // of the server
	// Watching is when all clients watched, since the record was cleared; 0: they do not.
	Watching time.Duration
	// Served has for each moment at which a client began to watch how long that took.
	Served []time.Duration
}

// Total returns the number of requests of a kind.
func (r *Record) Total(k Kind) int {
	n := 0
	for _, v := range r.Arrivals[k] {
		n += v
	}
	return n
}

// Requests returns the number of requests by the tenth of a second, all kinds together.
func (r *Record) Requests() []int {
	var all []int
	for _, arrivals := range r.Arrivals {
		for len(all) < len(arrivals) {
			all = append(all, 0)
		}
		for i, n := range arrivals {
			all[i] += n
		}
	}
	return all
}

// PeakSecond returns the most requests in any ten tenths of a second in a row.
func (r *Record) PeakSecond() int {
	all := r.Requests()
	most, sum := 0, 0
	for i, n := range all {
		sum += n
		if i >= tenths {
			sum -= all[i-tenths]
		}
		most = max(most, sum)
	}
	return most
}

// tenths is the number of bins of a second.
const tenths = 10

// A recorder fills a Record. Any goroutine may use it.
type recorder struct {
	mu    sync.Mutex
	start time.Time
	r     Record
	lists int // that are being served
}

func (r *recorder) arrived(k Kind) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bin := int(time.Since(r.start) * tenths / time.Second)
	for len(r.r.Arrivals[k]) <= bin {
		r.r.Arrivals[k] = append(r.r.Arrivals[k], 0)
	}
	r.r.Arrivals[k][bin]++
}

// note changes the record.
func (r *recorder) note(change func(r *Record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.r)
}

// listing counts the lists that are being served. It is called with 1 and then with -1.
func (r *recorder) listing(d int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists += d
	r.r.Lists = max(r.r.Lists, r.lists)
}

// watching notes that a client began to watch, and whether all do now.
func (r *recorder) watching(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := time.Since(r.start)
	r.r.Served = append(r.r.Served, since)
	if all && r.r.Watching == 0 {
		r.r.Watching = since
	}
}
