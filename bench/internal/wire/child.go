package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/bench/internal/child"
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
	TLS    bool   // over TLS and HTTP/2
	CA     []byte // the certificate of a TLS server
	Format Format
	Set    string // the set of the side; see sets
	Side   string
	N      int // the number of objects
	// Default is N where no number is asked for; 0: 10,000. A short measurement has fewer.
	Default int
	// Events is the number of events after the sync for each of Changes, in turn.
	Events  int
	Changes []string
	// Relist says that the server then ends the watch with 410 Gone, and has the same objects.
	Relist bool
	// Profile is the prefix of the files for CPU profiles, of the sync and of the events. "" means
	// no profiles.
	Profile string
}

// childVariable is the environment variable that passes a job, as JSON, to a child process.
const childVariable = "LW_BENCH_JOB"

// run does j in a child process, and returns the result.
func (j job) run() (compare.Sample, error) { return child.Run(childVariable, 5*time.Minute, j) }

// Child does the job of a child process and exits. In any other process it returns at once. A
// program that runs [Cases] must call it first, because run starts the same program again.
func Child() { child.Serve(childVariable, job.measure) }

// measure runs an informer with one handler, until the handler has received all objects and then
// all events.
func (j job) measure() (compare.Sample, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	added, all := 0, make(chan struct{})
	updated, last := make(chan struct{}), map[string]bool{}
	for i := range j.Changes {
		last[pods.Version(j.N+(i+1)*j.Events-1)] = true
	}
	if j.Relist {
		last[pods.Version(j.N)] = true
	}
	config := &rest.Config{Host: j.URL + "/" + j.Path, TLSClientConfig: rest.TLSClientConfig{CAData: j.CA}}
	config.ContentType, config.AcceptContentTypes = string(j.Format), string(j.Format)
	start, err := sets[j.Set].sides[j.Side].follow(ctx, Following{
		Config: config,
		URL:    config.Host + sets[j.Set].kind.path,
		Add: func(Object) {
			if added++; added == j.N {
				close(all)
			}
		},
		Update: func(obj Object) {
			if last[obj.GetResourceVersion()] {
				updated <- struct{}{}
			}
		},
		Failed: j.failed,
	})
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: config.TLSClientConfig})
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
		}), j.N)
	}); err != nil {
		return nil, err
	}
	peak, err := Memory("VmHWM")
	if err != nil {
		return nil, err
	}
	if sample["rss"], err = Memory("VmRSS"); err != nil {
		return nil, err
	}
	live, _ := measure.Live()
	sample["peak"], sample["live"] = peak, (float64(live)-float64(before))/float64(j.N)
	sample["peak/live"] = peak / float64(live)
	for _, change := range j.Changes {
		emitted := error(nil)
		err = j.profiled(change, func() {
			put(change+".", measure.Do(func() {
				if emitted = child.Emit(client, j.URL, j.Events, change); emitted == nil {
					<-updated
				}
			}), j.Events)
		})
		if err := errors.Join(err, emitted); err != nil {
			return nil, err
		}
	}
	if j.Relist {
		return sample, j.relist(client, updated, put, sample)
	}
	live, _ = measure.Live()
	sample["live.events"] = (float64(live) - float64(before)) / float64(j.N)
	return sample, nil
}

// relist makes the server end the watch with 410 Gone, and measures until an event of the next
// watch has come. The server has the same objects as before. The key relist.added is how much
// larger the resident memory was meanwhile at most, and relist.added/live that divided by the live
// heap.
func (j job) relist(client *http.Client, updated <-chan struct{}, put func(string, measure.Usage, int),
	sample compare.Sample) error {
	live, _ := measure.Live()
	debug.FreeOSMemory()
	// 5 resets VmHWM to what is resident now; see proc_pid_clear_refs(5).
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return err
	}
	before, err := Memory("VmHWM")
	if err != nil {
		return err
	}
	emitted := error(nil)
	err = j.profiled("relist", func() {
		put("relist.", measure.Do(func() {
			if emitted = child.Emit(client, j.URL, 1, gone); emitted != nil {
				return
			}
			// The server sends it when a watch is open that has no more initial events to send.
			if emitted = child.Emit(client, j.URL, 1, changedVersion); emitted == nil {
				<-updated
			}
		}), j.N)
	})
	if err := errors.Join(err, emitted); err != nil {
		return err
	}
	peak, err := Memory("VmHWM")
	sample["relist.added"] = peak - before
	sample["relist.added/live"] = (peak - before) / float64(live)
	return err
}

// profiled calls work, and writes a CPU profile of it if one is wanted.
func (j job) profiled(what string, work func()) error {
	if j.Profile == "" {
		work()
		return nil
	}
	return measure.Profile(j.Profile+"-"+what+".pprof", work)
}

// failed takes an error of the informer, and ends the process unless the case provokes the error: a
// server without streamed lists refuses them, and one that shall be listed again ends the watch.
func (j job) failed(err error) {
	if j.Path == listed && apierrors.IsInvalid(err) || j.Relist && apierrors.IsResourceExpired(err) {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Memory returns a size of the process's memory in bytes, as the kernel names it.
func Memory(name string) (float64, error) {
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
