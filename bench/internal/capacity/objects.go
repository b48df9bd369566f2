// Package capacity measures what one process can hold: an informer of millions of objects, and
// thousands of informers, each with its connection to a server.
package capacity

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/child"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
)

// Objects follows n pods by an informer of five fields, in a process of its own. The sample has, of
// the process: bytes, the live heap an object; cpu and wall, the nanoseconds of an object of the
// first list, with those of making its bytes; gc.cpu, the CPU time of one collection; gc.pause, the
// longest pause of all goroutines; resident, the most memory that the kernel has given to it.
func Objects(n int) (compare.Sample, error) {
	return child.Run(objectsVariable, 10*time.Minute, n)
}

const objectsVariable = "LW_BENCH_OBJECTS"

// A slimPod is what is kept of a pod.
type slimPod struct {
	lw.Meta `json:"metadata"`
	Spec    struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}

func measureObjects(n int) (compare.Sample, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	src := &lw.HTTP[*slimPod]{URL: "http://server/api/v1/pods", Client: &http.Client{Transport: podList(n)}}
	var failed error
	inf := lw.NewInformer(src, &lw.Options{List: lw.ListWhole, OnError: func(err error) { failed = err; cancel() }})
	before, _ := measure.Live()
	synced := measure.Do(func() {
		go inf.Run(ctx)
		inf.WaitForSync(ctx)
	})
	if failed != nil {
		return nil, failed
	}
	if got := inf.Store().Len(); got != n {
		return nil, fmt.Errorf("%d objects, not %d", got, n)
	}
	after, _ := measure.Live()
	collection := measure.Do(runtime.GC)
	resident, err := peakResident()
	if err != nil {
		return nil, err
	}
	sample := compare.Sample(synced.Sample(n))
	sample["bytes"] = float64(after-before) / float64(n)
	sample["gc.cpu"], sample["gc.pause"] = float64(collection.CPU), longestPause()
	sample["resident"] = resident
	runtime.KeepAlive(inf)
	return sample, nil
}

// longestPause returns an upper bound of the longest pause that the collector has made, in
// nanoseconds.
func longestPause() float64 {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	longest := 0.0
	for i, n := range h.Counts {
		if n > 0 {
			longest = h.Buckets[i+1]
		}
	}
	return longest * float64(time.Second)
}

// podList is a server of so many pods. It answers a list, and then a watch in which nothing
// happens.
type podList int

func (l podList) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Header: http.Header{"Content-Type": {"application/json"}}, Request: req}
	if req.URL.Query().Get("watch") != "" {
		r, w := io.Pipe()
		context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
		resp.Body = r
	} else {
		resp.Body = &podBody{n: int(l)}
	}
	return resp, nil
}

// podBody is the JSON of a list. It makes the bytes while they are read.
type podBody struct {
	next, n int
	buf     []byte
	ended   bool
}

func (b *podBody) Read(p []byte) (int, error) {
	if len(b.buf) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		b.fill()
	}
	n := copy(p, b.buf)
	b.buf = b.buf[n:]
	return n, nil
}

// rest stands for what a projection skips.
var rest = strings.Repeat("x", 200)

func (b *podBody) fill() {
	b.buf = b.buf[:0]
	if b.next == 0 {
		b.buf = append(b.buf, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"99999999"},"items":[`...)
	}
	for end := min(b.n, b.next+100); b.next < end; b.next++ {
		i := b.next
		if i > 0 {
			b.buf = append(b.buf, ',')
		}
		b.buf = fmt.Appendf(b.buf, `{"metadata":{"name":"service-%d-7c5ddbdf54-%05x","namespace":"team-%d","uid":"%08x-0000-4000-8000-%012x",`+
			`"resourceVersion":"%d","annotations":{"note":"%s"}},"spec":{"nodeName":"node-%d"},"status":{"phase":"Running","podIP":"10.%d.%d.%d"}}`,
			i/10, i&0xfffff, i/10%100, i, i, 1000+i, rest, i/100, i>>16&255, i>>8&255, i&255)
	}
	if b.next == b.n {
		b.buf, b.ended = append(b.buf, "]}"...), true
	}
}

func (b *podBody) Close() error { return nil }
