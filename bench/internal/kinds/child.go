package kinds

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/child"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
)

// A job is what a child process measures.
type job struct {
	URL     string // the server's
	CA      []byte // the certificate of a TLS server
	LW      bool   // lw, else client-go
	Share   bool   // lw's HTTP.Share
	Kinds   int    // how many kinds are followed, beside one that warms up
	Objects int    // of each kind
	Events  int    // of each kind, after the sync
	Profile string // the file for a profile of the heap; "": none
}

// childVariable is the environment variable that passes a job, as JSON, to a child process.
const childVariable = "LW_BENCH_KINDS"

// run does j in a child process, and returns the result.
func (j job) run() (compare.Sample, error) { return child.Run(childVariable, 2*time.Minute, j) }

// Child does the job of a child process and exits. In any other process it returns at once. A
// program that runs [Cases] must call it first, because run starts the same program again.
func Child() { child.Serve(childVariable, job.measure) }

// measure follows all kinds, each by an informer with one handler, until the handlers have received
// all objects; looks at the memory; and then receives the events. One kind is followed before, so
// that the connection, its buffers and compiled decoders, which all kinds share, do not count.
func (j job) measure() (compare.Sample, error) {
	if j.Profile != "" {
		runtime.MemProfileRate = 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	config := &rest.Config{Host: j.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: j.CA}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	f, err := j.newFollower(config, client)
	if err != nil {
		return nil, err
	}
	f.follow(ctx, "kind-warm-ups")
	f.await(j.Objects)
	shared := use()
	bare, err := j.bareWatches(ctx, client)
	if err != nil {
		return nil, err
	}
	before := use()
	started := measure.Do(func() {
		for i := range j.Kinds {
			f.follow(ctx, fmt.Sprintf("kind%ds", i))
		}
		f.await((1 + j.Kinds) * j.Objects)
	})
	after := use()
	if err := j.profile(); err != nil {
		return nil, err
	}
	per := func(now, before int) float64 { return float64(now-before) / float64(j.Kinds) }
	transport := per(bare.heap+bare.stack, shared.heap+shared.stack)
	sample := compare.Sample{
		"own":  per(after.heap+after.stack, before.heap+before.stack) - transport,
		"heap": per(after.heap, before.heap), "stack": per(after.stack, before.stack),
		"memory":     per(after.heap+after.stack, before.heap+before.stack),
		"goroutines": per(after.goroutines, before.goroutines),
		"start.cpu":  float64(started.CPU) / float64(j.Kinds),
	}
	// The first events teach the decoders what the events have in common.
	for range 2 {
		f.received.Store(0)
		var emitted error
		used := measure.Do(func() {
			if emitted = child.Emit(client, j.URL, j.Events, ""); emitted == nil {
				f.await((1 + j.Kinds) * j.Events)
			}
		})
		if emitted != nil {
			return nil, emitted
		}
		for key, v := range used.Sample((1 + j.Kinds) * j.Events) {
			sample["event."+key] = v
		}
	}
	after = use()
	sample["memory.events"] = per(after.heap+after.stack, before.heap+before.stack)
	runtime.KeepAlive(f)
	return sample, nil
}

// bareWatches opens a watch of each kind, reads it up to the end of the initial events and leaves
// it there, without anything that reads on. It returns what is in use then, and closes the watches.
func (j job) bareWatches(ctx context.Context, client *http.Client) (usage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range j.Kinds {
		url := fmt.Sprintf("%s/apis/%s/kind%ds?watch=true&sendInitialEvents=true", j.URL, apiVersion, i)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return usage{}, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return usage{}, err
		}
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if bytes.Contains(lines.Bytes(), []byte(`"BOOKMARK"`)) {
				break
			}
		}
	}
	return use(), nil
}

// A usage is what the process has in use, in bytes.
type usage struct{ heap, stack, goroutines int }

// use waits until the process is idle, and returns what it uses. A collection halves the stack of a
// goroutine that does not need it. An idle process collects every two minutes, so that after some
// minutes stacks are as small as they get.
func use() usage {
	time.Sleep(300 * time.Millisecond)
	for range 3 {
		measure.Live()
	}
	heap, stack := measure.Live()
	return usage{int(heap), int(stack), runtime.NumGoroutine()}
}

// profile writes the profile of the heap, if one is wanted.
func (j job) profile() error {
	if j.Profile == "" {
		return nil
	}
	out, err := os.Create(j.Profile)
	if err != nil {
		return err
	}
	defer out.Close()
	return pprof.WriteHeapProfile(out)
}

// A follower starts informers. received counts the objects and then the events that their handlers
// have received.
type follower struct {
	follow   func(ctx context.Context, resource string)
	received atomic.Int64
}

// await waits until n objects or events have been received.
func (f *follower) await(n int) {
	for f.received.Load() < int64(n) {
		time.Sleep(time.Millisecond)
	}
}

func (j job) newFollower(config *rest.Config, client *http.Client) (*follower, error) {
	f := &follower{}
	if j.LW {
		f.follow = func(ctx context.Context, resource string) {
			src := &lw.HTTP[*unstructured.Unstructured]{URL: j.URL + "/apis/" + apiVersion + "/" + resource, Client: client,
				Share: j.Share}
			inf := lw.NewInformer(src, &lw.Options{OnError: fail})
			inf.AddHandler(lw.Handler[*unstructured.Unstructured]{
				Add:    func(*unstructured.Unstructured) { f.received.Add(1) },
				Update: func(_, _ *unstructured.Unstructured) { f.received.Add(1) },
			})
			go inf.Run(ctx)
		}
		return f, nil
	}
	clients, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(clients, 0)
	f.follow = func(ctx context.Context, resource string) {
		inf := factory.ForResource(gv.WithResource(resource)).Informer()
		_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { f.received.Add(1) },
			UpdateFunc: func(_, _ any) { f.received.Add(1) },
		})
		if err != nil {
			fail(err)
		}
		factory.Start(ctx.Done())
	}
	return f, nil
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
