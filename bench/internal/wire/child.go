package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
	"github.com/go-lw/lw/bench/internal/measure"
	"github.com/go-lw/lw/bench/internal/pods"
)

// The first element of a path says whether the server supports streamed lists.
const (
	streamed = "stream"
	listed   = "list"
)

// A job is what a child process measures.
type job struct {
	URL    string // the server's
	Path   string // streamed or listed
	CA     []byte // the certificate of a TLS server
	Format Format
	LW     bool // lw, else client-go
	Share  bool
	Drop   []string
	// Follower is the name of a Follower that takes the place of both.
	Follower string
	Pods     int
	Events   int // number of events of each sort after the sync
	// Profile is the prefix of two files for CPU profiles, of the sync and of the events. "" means
	// no profiles.
	Profile string
}

// childVariable is the environment variable that passes a job, as JSON, to a child process.
const childVariable = "LW_BENCH_JOB"

// run does j in a child process, and returns the result.
func (j job) run() (compare.Sample, error) {
	in, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(in))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("measuring process: %w\n%s", err, stderr.Bytes())
	}
	var sample compare.Sample
	if err := json.Unmarshal(out, &sample); err != nil {
		return nil, fmt.Errorf("measuring process: %w", err)
	}
	return sample, nil
}

// Child does the job of a child process and exits. In any other process it returns at once. A
// program that runs [Cases] must call it first, because run starts the same program again.
func Child() {
	in, ok := os.LookupEnv(childVariable)
	if !ok {
		return
	}
	var j job
	err := json.Unmarshal([]byte(in), &j)
	if err == nil {
		var sample compare.Sample
		if sample, err = j.measure(); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(sample)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// measure runs an informer with one handler, until the handler has received all pods and then all
// events.
func (j job) measure() (compare.Sample, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	added, all := 0, make(chan struct{})
	updated, last := make(chan struct{}), [...]string{pods.Version(j.Pods + j.Events - 1), pods.Version(j.Pods + 2*j.Events - 1)}
	add := func(*corev1.Pod) {
		if added++; added == j.Pods {
			close(all)
		}
	}
	update := func(pod *corev1.Pod) {
		if pod.ResourceVersion == last[0] || pod.ResourceVersion == last[1] {
			updated <- struct{}{}
		}
	}
	start, client, err := j.informer(ctx, add, update)
	if err != nil {
		return nil, err
	}
	before, _ := measure.Live()
	sample := compare.Sample{}
	put := func(prefix string, u measure.Usage, n int) {
		for key, v := range u.Sample(n) {
			sample[prefix+key] = v
		}
	}
	if err := j.profiled("sync", func() {
		put("sync.", measure.Do(func() {
			start()
			<-all
		}), j.Pods)
	}); err != nil {
		return nil, err
	}
	peak, err := memory("VmHWM")
	if err != nil {
		return nil, err
	}
	if sample["rss"], err = memory("VmRSS"); err != nil {
		return nil, err
	}
	live, _ := measure.Live()
	sample["peak"], sample["live"] = peak, (float64(live)-float64(before))/float64(j.Pods)
	sample["peak/live"] = peak / float64(live)
	if j.Events == 0 {
		return sample, nil
	}
	for _, e := range []struct{ name, change string }{{"event", changedStatus}, {"touch", changedVersion}} {
		emitted := error(nil)
		err = j.profiled(e.name, func() {
			put(e.name+".", measure.Do(func() {
				if emitted = emit(client, j.URL, j.Events, e.change); emitted == nil {
					<-updated
				}
			}), j.Events)
		})
		if err := errors.Join(err, emitted); err != nil {
			return nil, err
		}
	}
	live, _ = measure.Live()
	sample["live.events"] = (float64(live) - float64(before)) / float64(j.Pods)
	return sample, nil
}

// What an event changes: the status and the managed fields of the kubelet, or only the version.
const (
	changedStatus  = "status"
	changedVersion = "version"
)

// profiled calls work, and writes a CPU profile of it if one is wanted.
func (j job) profiled(what string, work func()) error {
	if j.Profile == "" {
		work()
		return nil
	}
	return measure.Profile(j.Profile+"-"+what+".pprof", work)
}

// informer returns a function that starts the informer of j, and the HTTP client that it uses.
func (j job) informer(ctx context.Context, add, update func(*corev1.Pod)) (start func(), _ *http.Client, err error) {
	config := &rest.Config{Host: j.URL + "/" + j.Path, TLSClientConfig: rest.TLSClientConfig{CAData: j.CA}}
	config.ContentType, config.AcceptContentTypes = string(j.Format), string(j.Format)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	if j.Follower != "" {
		start, err := followers[j.Follower](ctx, config, add, update)
		return start, client, err
	}
	if j.LW {
		src := &lw.HTTP[*corev1.Pod]{URL: config.Host + "/api/v1/pods", Client: client, Share: j.Share, Drop: j.Drop}
		if j.Format == JSON {
			src.Accept = string(JSON)
		}
		inf := lw.NewInformer(src, &lw.Options{OnError: failOn(j.Path)})
		inf.AddHandler(lw.Handler[*corev1.Pod]{
			Add: add, Update: func(_, pod *corev1.Pod) { update(pod) }, Delete: func(*corev1.Pod) {}, EveryUpdate: true,
		})
		return func() { go inf.Run(ctx) }, client, nil
	}
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, nil, err
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { add(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { update(obj.(*corev1.Pod)) },
		DeleteFunc: func(any) {},
	})
	return func() { factory.StartWithContext(ctx) }, client, err
}

// failOn returns an OnError function that ends the process. If the server has no streamed lists the
// first error is their refusal, which is ignored.
func failOn(path string) func(error) {
	refusals := 0
	return func(err error) {
		if refusals++; path == listed && refusals == 1 {
			return
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// emit asks the server to send n events.
func emit(client *http.Client, url string, n int, change string) error {
	resp, err := client.Post(fmt.Sprintf("%s/emit?n=%d&change=%s", url, n, change), "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New("emit: " + resp.Status)
	}
	return nil
}

// memory returns a size of the process's memory in bytes, as the kernel names it.
func memory(name string) (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/self/status", name)
}
