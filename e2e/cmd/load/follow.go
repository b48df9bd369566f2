package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
)

// followers start informers for Pods and ConfigMaps that tell told of each object, and return when both have synced and told of
// all.
var followers = map[string]func(ctx context.Context, c *connection, told func(metav1.Object)) error{
	"lw":            followLW,
	"lw-FromClient": followFromClient,
	"client-go":     followClientGo,
}

func followLW(ctx context.Context, c *connection, told func(metav1.Object)) error {
	accept := ""
	if c.config.ContentType == "application/json" {
		accept = c.config.ContentType
	}
	return errorOfBoth(
		startLW(ctx, &lw.HTTP[*corev1.Pod]{URL: c.config.Host + "/api/v1/pods", Client: c.http, Accept: accept}, told),
		startLW(ctx, &lw.HTTP[*corev1.ConfigMap]{URL: c.config.Host + "/api/v1/configmaps", Client: c.http, Accept: accept}, told))
}

func followFromClient(ctx context.Context, c *connection, told func(metav1.Object)) error {
	set, err := kubernetes.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		return err
	}
	return errorOfBoth(
		startLW(ctx, lw.FromClient(set.CoreV1().Pods("")), told),
		startLW(ctx, lw.FromClient(set.CoreV1().ConfigMaps("")), told))
}

// startLW starts an informer and returns what waits for it.
func startLW[T interface {
	lw.Object
	metav1.Object
}](ctx context.Context, src lw.Source[T], told func(metav1.Object)) func() error {
	informer := lw.NewInformer(src, nil)
	handler := informer.AddHandler(lw.Handler[T]{
		Add:    func(obj T) { told(obj) },
		Update: func(_, obj T) { told(obj) },
	})
	go informer.Run(ctx)
	return func() error { return handler.WaitForSync(ctx) }
}

func errorOfBoth(a, b func() error) error {
	if err := a(); err != nil {
		return err
	}
	return b()
}

func followClientGo(ctx context.Context, c *connection, told func(metav1.Object)) error {
	set, err := kubernetes.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(set, 0)
	var synced []cache.InformerSynced
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Pods().Informer(), factory.Core().V1().ConfigMaps().Informer()} {
		handler, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { told(obj.(metav1.Object)) },
			UpdateFunc: func(_, obj any) { told(obj.(metav1.Object)) },
		})
		if err != nil {
			return err
		}
		synced = append(synced, handler.HasSynced)
	}
	factory.Start(ctx.Done())
	for !synced[0]() || !synced[1]() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// A connection is a follower's way to the server, which counts its requests.
type connection struct {
	config         *rest.Config
	http           *http.Client
	watches, lists atomic.Int64
}

func newConnection(a assignment) (*connection, error) {
	c := &connection{config: &rest.Config{Host: a.URL, BearerToken: a.Token, TLSClientConfig: rest.TLSClientConfig{CAData: a.CA}, QPS: -1}}
	c.config.ContentType = "application/json"
	if a.Encoding == "protobuf" {
		c.config.ContentType = "application/vnd.kubernetes.protobuf"
	}
	c.config.AcceptContentTypes = c.config.ContentType
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Has("watch") {
				c.watches.Add(1)
			} else {
				c.lists.Add(1)
			}
			return next.RoundTrip(req)
		})
	})
	var err error
	c.http, err = rest.HTTPClientFor(c.config)
	return c, err
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A meter takes what handlers are told in a storm.
type meter struct {
	mu    sync.Mutex
	began bool            // guarded by mu, as all below
	lags  []time.Duration //
	last  time.Time       //
	ends  int             // collections whose last write has been told
	done  chan struct{}
}

// told is called by the handlers. Every write of a storm says when it was sent, and the last one of a collection that it is.
func (m *meter) told(obj metav1.Object) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.began {
		return
	}
	sent, err := strconv.ParseInt(obj.GetAnnotations()[sentAnnotation], 10, 64)
	if err != nil {
		return
	}
	m.lags = append(m.lags, now.Sub(time.Unix(0, sent)))
	m.last = now
	if obj.GetName() == lastName {
		if m.ends++; m.ends == 2 {
			close(m.done)
		}
	}
}

// follow is what a child does.
func follow(ctx context.Context, arg string) error {
	var a assignment
	if err := json.Unmarshal([]byte(arg), &a); err != nil {
		return err
	}
	start, ok := followers[a.Follower]
	if !ok {
		return fmt.Errorf("no follower is named %q", a.Follower)
	}
	c, err := newConnection(a)
	if err != nil {
		return err
	}
	m := &meter{done: make(chan struct{})}
	r := result{Follower: a.Follower, Encoding: a.Encoding}
	began, cpu := time.Now(), cpuTime()
	if err := start(ctx, c, m.told); err != nil {
		return err
	}
	r.Sync, r.SyncCPU = time.Since(began).Seconds(), (cpuTime() - cpu).Seconds()
	r.PeakRSS = peakRSS()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.LiveHeap = float64(mem.HeapAlloc)
	fmt.Println("synced")

	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() || in.Text() != "begin" {
		return fmt.Errorf("the parent is gone")
	}
	go func() {
		in.Scan() // until the parent is gone
		os.Exit(1)
	}()
	m.mu.Lock()
	m.began = true
	m.mu.Unlock()
	stopProfile, err := profile(a)
	if err != nil {
		return err
	}
	began, cpu = time.Now(), cpuTime()
	fmt.Println("begun")
	select {
	case <-m.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.StormCPU = (cpuTime() - cpu).Seconds()
	stopProfile()
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Told, r.Took = float64(len(m.lags)), m.last.Sub(began).Seconds()
	slices.Sort(m.lags)
	r.LagP50, r.LagP99 = m.lags[len(m.lags)/2].Seconds(), m.lags[len(m.lags)*99/100].Seconds()
	r.Watches, r.Lists = float64(c.watches.Load()), float64(c.lists.Load())
	return json.NewEncoder(os.Stdout).Encode(r)
}

// profile starts a CPU profile if one is asked for.
func profile(a assignment) (stop func(), err error) {
	if a.Profiles == "" {
		return func() {}, nil
	}
	file, err := os.Create(filepath.Join(a.Profiles, a.Follower+"-"+a.Encoding+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}, nil
}

// cpuTime is what this process has used, user and system.
func cpuTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// peakRSS is the most memory that this process has had, in bytes.
func peakRSS() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb * 1024
		}
	}
	return 0
}
