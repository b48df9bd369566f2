package capacity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/child"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/internal/apiserver"
)

// objects is how many objects each informer of [Informers] has.
const objects = 20

// Informers runs n informers in a process of their own, each with a connection to lw's embedded
// server, which is in this process. The server sends each of them so many events.
//
// The sample has, of the process of the informers: memory, heap and stack in bytes an informer;
// goroutines; start and start.cpu, the nanoseconds until the last one has synced, and the CPU time
// of one; event.cpu, that of an event. Of this process: server.memory, in bytes a watcher; and
// server.cpu, the CPU time of a delivery.
func Informers(n, events int) (compare.Sample, error) {
	const resource = "widgets"
	server := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{{Resource: resource, Kind: "Widget"}}})
	defer server.Close()
	widgets := server.Collection(resource)
	for i := range objects {
		if _, err := widgets.Create(widget(i, "")); err != nil {
			return nil, err
		}
	}
	url, stop, err := server.Start("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer stop()
	heap, stack := measure.Live()
	type result struct {
		sample compare.Sample
		err    error
	}
	done := make(chan result, 1)
	go func() {
		sample, err := child.Run(informersVariable, 10*time.Minute, informersJob{url + widgets.URL(""), n, events})
		done <- result{sample, err}
	}()
	// The child says by an object that all its informers have synced.
	for {
		if _, err := widgets.Get(types.NamespacedName{Namespace: namespace, Name: ready}); err == nil {
			break
		}
		select {
		case r := <-done:
			return nil, errors.Join(errors.New("the informers ended early"), r.err)
		case <-time.After(20 * time.Millisecond):
		}
	}
	time.Sleep(time.Second)
	heapNow, stackNow := measure.Live()
	began := measure.CPU()
	for i := range events {
		if _, err := widgets.Update(widget(0, fmt.Sprint("event ", i))); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(n) * 100 * time.Microsecond)
	}
	r := <-done
	if r.err != nil {
		return nil, r.err
	}
	r.sample["server.memory"] = float64(int64(heapNow+stackNow)-int64(heap+stack)) / float64(n)
	r.sample["server.cpu"] = float64(measure.CPU()-began) / float64(n*events)
	return r.sample, nil
}

const (
	namespace = "bench"
	// ready is the name of the object that says that all informers have synced.
	ready = "ready"
)

// widget returns object i. note tells its versions apart.
func widget(i int, note string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Widget","metadata":{"namespace":%q,"name":"widget-%d"},"spec":{"note":%q}}`, namespace, i, note)
}

type informersJob struct {
	URL       string
	N, Events int
}

const informersVariable = "LW_BENCH_INFORMERS"

// A thing is what an informer keeps of a widget.
type thing struct {
	lw.Meta `json:"metadata"`
	Spec    struct {
		Note string `json:"note"`
	} `json:"spec"`
}

// measure runs the informers of the child.
func (j informersJob) measure() (compare.Sample, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A compressed stream would hold a compressor of a megabyte in the embedded server.
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	fail := func(err error) { fmt.Fprintln(os.Stderr, err) }
	var received atomic.Int64
	heap, stack := measure.Live()
	goroutines := runtime.NumGoroutine()
	informers := make([]*lw.Informer[*thing], j.N)
	started := measure.Do(func() {
		for i := range informers {
			informers[i] = lw.NewInformer(&lw.HTTP[*thing]{URL: j.URL, Client: client}, &lw.Options{OnError: fail})
			informers[i].AddHandler(lw.Handler[*thing]{
				Update:      func(_, _ *thing) { received.Add(1) },
				EveryUpdate: true,
			})
			go informers[i].Run(ctx)
		}
		for _, inf := range informers {
			inf.WaitForSync(ctx)
		}
	})
	time.Sleep(time.Second)
	heapNow, stackNow := measure.Live()
	sample := compare.Sample{
		"memory": (float64(heapNow+stackNow) - float64(heap+stack)) / float64(j.N),
		"stack":  (float64(stackNow) - float64(stack)) / float64(j.N),
		// The goroutines of net/http's connections are among them.
		"goroutines": float64(runtime.NumGoroutine()-goroutines) / float64(j.N),
		"start":      float64(started.Wall), "start.cpu": float64(started.CPU) / float64(j.N),
	}
	body := strings.Replace(string(widget(0, "")), "widget-0", ready, 1)
	namespaced := strings.Replace(j.URL, "/widgets", "/namespaces/"+namespace+"/widgets", 1)
	resp, err := client.Post(namespaced, "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return nil, errors.New(resp.Status)
	}
	cpu := measure.CPU()
	want := int64(j.N * j.Events)
	for received.Load() < want {
		time.Sleep(10 * time.Millisecond)
	}
	sample["event.cpu"] = float64(measure.CPU()-cpu) / float64(want)
	runtime.KeepAlive(informers)
	return sample, nil
}

// Child does the job of a child process and exits. In any other process it returns at once. A
// program that calls [Objects] or [Informers] must call it first: they start the same program
// again.
func Child() {
	child.Serve(objectsVariable, measureObjects)
	child.Serve(informersVariable, informersJob.measure)
}

// peakResident returns the most memory that the process has had, in bytes.
func peakResident() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}
