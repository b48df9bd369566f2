// Command attack measures what others can do to the memory of a program that caches ConfigMaps: a
// user who may edit one namespace makes many of them, as large as the server takes them, of content
// that does not pack. Each side is a process of its own, which follows them through the first list,
// some relists and a storm of events. docs/memory.md has the figures.
//
//	go run ./cmd/attack             # 700 ConfigMaps of 900 KB, a limit of 256 MiB
//	go run ./cmd/attack -n 70 -limit 26 -rounds 3
//	go run ./cmd/attack -sides 'packed, with the limit' -starts 1000 -rounds 1 -kill 336
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/bound"
	"github.com/go-lw/lw/bench/internal/child"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/wire"
	"github.com/go-lw/lw/clientgo"
	"github.com/go-lw/lw/lwtest"
)

// A job is what a child process measures.
type job struct {
	URL, Control, Side string
	N, Rounds          int
	Limit, Kill        int64
	Profile            string
}

const childVariable = "LW_ATTACK_JOB"

const (
	clientGo = "client-go"
	plain    = "lw"
	packed   = "packed"
	limited  = "packed, with the limit"
)

func main() {
	child.Serve(childVariable, job.measure)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		os.Exit(1)
	}
}

func run() error {
	n := flag.Int("n", 700, "how many ConfigMaps there are")
	size := flag.Int("size", 900_000, "bytes of each")
	limit := flag.Int64("limit", 256, "MiB")
	rounds := flag.Int("rounds", 3, "how many relists and storms of n/4 events each")
	starts := flag.Int("starts", 1, "how often each side is started")
	kill := flag.Int64("kill", 0,
		"MiB in which each start lives or is killed: in a memory cgroup, if one can be made; 0: no bound")
	profile := flag.String("profile", "", "where the heap of each process is written at its end")
	sides := flag.String("sides", strings.Join([]string{clientGo, plain, packed, limited}, "; "),
		"who is measured, with a semicolon and a blank between two")
	flag.Parse()
	s, all, err := server(*n, *size)
	if err != nil {
		return err
	}
	defer s.Close()
	url, err := s.Listen()
	if err != nil {
		return err
	}
	control := httptest.NewServer(storm(s, all, *n, *size))
	defer control.Close()
	fmt.Printf("%d ConfigMaps of %d bytes, a limit of %d MiB\n\n", *n, *size, *limit)
	fmt.Println("| side | starts | killed | peak RSS of the first list, MiB | and of all, MiB " +
		"| requests for one | s of CPU |")
	fmt.Println("|---|---|---|---|---|---|---|")
	for side := range strings.SplitSeq(*sides, "; ") {
		got, killed := map[string][]float64{}, 0
		for i := range *starts {
			sample, err := child.Run(childVariable, 10*time.Minute,
				job{url, control.URL, side, *n, *rounds, *limit << 20, *kill << 20, *profile})
			bound.Release()
			if bound.Killed(err) {
				killed++
			} else if err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
			for name, v := range sample {
				got[name] = append(got[name], v)
			}
			if *starts > 1 { // who ends it early has what was found until then
				fmt.Fprintf(os.Stderr, "%s: start %d of %d: %d killed, a peak of at most %s MiB\n", side, i+1, *starts, killed,
					most(got["peak"], 1<<20))
			}
		}
		fmt.Printf("| %s | %d | %d | %s | %s | %s | %s |\n", side, *starts, killed,
			spread(got["first"], 1<<20), spread(got["peak"], 1<<20), spread(got["requests"], 1), spread(got["cpu"], 1))
		if by := got["cgroup"]; *kill > 0 && len(by) > 0 && by[0] == 0 {
			fmt.Println("\nThe bound was kept by a watcher of RSS: there are no cgroups here.")
		}
	}
	return nil
}

// spread returns the least, the median and the most of values.
func spread(values []float64, unit float64) string {
	if len(values) == 0 {
		return "-"
	}
	slices.Sort(values)
	least, most := values[0]/unit, values[len(values)-1]/unit
	if len(values) == 1 {
		return fmt.Sprintf("%.0f", least)
	}
	return fmt.Sprintf("%.0f / %.0f / %.0f", least, measure.Quantile(values, 0.5)/unit, most)
}

// most returns the most of values.
func most(values []float64, unit float64) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", slices.Max(values)/unit)
}

// server returns a server of n ConfigMaps.
func server(n, size int) (*lwtest.Server, *lwtest.Collection[*corev1.ConfigMap], error) {
	s := lwtest.StartServer(lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap", Type: &corev1.ConfigMap{}})
	all := lwtest.Objects[*corev1.ConfigMap](s, "configmaps")
	for i := range n {
		if _, err := all.Create(configMap(i, size)); err != nil {
			return nil, nil, err
		}
	}
	return s, all, nil
}

// storm has the informers list anew, at each request, changes a quarter of the ConfigMaps, and
// answers with the last version.
func storm(s *lwtest.Server, all *lwtest.Collection[*corev1.ConfigMap], n, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Compact()
		s.Break() // so that the next watch expires
		time.Sleep(time.Second)
		for i := range n / 4 {
			if _, err := all.Update(configMap(rand.IntN(n), size)); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			if i%8 == 7 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		fmt.Fprint(w, s.ResourceVersion())
	}
}

// configMap returns ConfigMap i with so many bytes that do not pack.
func configMap(i, size int) *corev1.ConfigMap {
	noise := make([]byte, size*3/4)
	r := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(rand.IntN(256)), byte(rand.IntN(256))})
	_, _ = r.Read(noise) // it has no error
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("cm-", i)},
		Data:       map[string]string{"text": base64.StdEncoding.EncodeToString(noise)},
	}
}

// measure follows the server.
func (j job) measure() (compare.Sample, error) {
	sample := compare.Sample{}
	if j.Kill > 0 {
		if err := bound.Enter(j.Kill); err == nil {
			sample["cgroup"] = 1
		} else {
			fmt.Fprintln(os.Stderr, "attack:", err)
			go bound.Watch(os.Getpid(), j.Kill)
		}
	}
	config := &rest.Config{Host: j.URL, QPS: -1}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfigAndClient(config, clientgo.Capture(httpClient))
	if err != nil {
		return nil, err
	}
	maps := client.CoreV1().ConfigMaps("")
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return maps.List(ctx, o)
		},
		WatchFuncWithContext: maps.Watch,
	}
	limit := &lw.PackLimit{Bytes: j.Limit}
	var inf cache.SharedIndexInformer
	switch j.Side {
	case clientGo:
		inf = cache.NewSharedIndexInformer(lister, &corev1.ConfigMap{}, 0, nil)
	case plain:
		inf = clientgo.Decoder{}.NewInformer(lister, &corev1.ConfigMap{}, 0, nil)
	case packed:
		inf = clientgo.Decoder{Pack: true}.NewInformer(lister, &corev1.ConfigMap{}, 0, nil)
	case limited:
		inf = clientgo.Decoder{Limit: limit}.NewInformer(lister, &corev1.ConfigMap{}, 0, nil)
	default:
		return nil, fmt.Errorf("there is no side %q", j.Side)
	}
	var bytes atomic.Int64 // so that the handler reads
	handled := func(obj any) { bytes.Add(int64(len(obj.(*corev1.ConfigMap).Data["text"]))) }
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: handled,
		UpdateFunc: func(_, obj any) { handled(obj) }}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go inf.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		return nil, ctx.Err()
	}
	if sample["first"], err = wire.Memory("VmHWM"); err != nil {
		return nil, err
	}
	for range j.Rounds {
		if err := j.round(inf); err != nil {
			return nil, err
		}
		for i := range 50 { // a program reads now and then
			if _, _, err := inf.GetIndexer().GetByKey(fmt.Sprint("team/cm-", i*7%j.N)); err != nil {
				return nil, err
			}
		}
	}
	if sample["peak"], err = wire.Memory("VmHWM"); err != nil {
		return nil, err
	}
	if j.Profile != "" {
		if err := writeHeap(j.Profile); err != nil {
			return nil, err
		}
	}
	sample["requests"], sample["cpu"] = float64(limit.Usage().Requests), measure.CPU().Seconds()
	return sample, nil
}

func writeHeap(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// round has the server make the informer list anew, and a storm of events, and waits for them.
func (j job) round(inf cache.SharedIndexInformer) error {
	resp, err := http.Get(j.Control)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var version string
	if _, err := fmt.Fscan(resp.Body, &version); err != nil {
		return err
	}
	for begun := time.Now(); inf.LastSyncResourceVersion() != version; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			return fmt.Errorf("the informer is at version %s, not %s", inf.LastSyncResourceVersion(), version)
		}
	}
	return nil
}
