// Command etcd is a controller whose objects are in an etcd, without an API server: it gives jobs
// to workers, and gives them to others when a worker goes away.
//
//	go run . -endpoints localhost:2379 -listen 127.0.0.1:8080
//
// A worker is a key with a lease. It renews the lease while it lives, and its key goes with it. The
// jobs are served by HTTP too, as an API server does: kubectl -s http://127.0.0.1:8080 get jobs.
//
// Without -endpoints it starts an etcd in this process, three workers and thirty jobs. One worker
// goes away. At the end each job is at a worker that lives, and the command exits with 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/serve"
)

// A Job is something to do.
type Job struct {
	lw.Meta `json:"metadata"`
	Command string `json:"command"`
	Worker  string `json:"worker,omitempty"` // who does it
}

// A Worker is there while its lease is.
type Worker struct {
	lw.Meta `json:"metadata"`
	Address string `json:"address"`
}

func main() {
	endpoints := flag.String("endpoints", "", "an etcd, such as localhost:2379; default: one in this process, and a demonstration")
	listen := flag.String("listen", "127.0.0.1:0", "where the jobs are served")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := func() error { return demo(ctx, *listen) }
	if *endpoints != "" {
		run = func() error {
			return connected(strings.Split(*endpoints, ","), func(s *stores) error { return s.control(ctx, *listen, nil) })
		}
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// stores are the collections of an etcd.
type stores struct {
	client  *clientv3.Client
	jobs    *etcd.Collection[*Job]
	workers *etcd.Collection[*Worker]
}

// connected calls f with the stores of an etcd.
func connected(endpoints []string, f func(*stores) error) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		return err
	}
	defer client.Close()
	s := &stores{client: client}
	if s.jobs, err = etcd.New[*Job](client, "/example/jobs/", nil); err != nil {
		return err
	}
	if s.workers, err = etcd.New(client, "/example/workers/", &etcd.Options[*Worker]{ClusterScoped: true}); err != nil {
		return err
	}
	return f(s)
}

// control gives jobs to workers and serves the jobs at listen, until ctx is done. It calls ready,
// unless that is nil, with the URL.
func (s *stores) control(ctx context.Context, listen string, ready func(url string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	jobs, workers := lw.NewInformer(s.jobs, nil), lw.NewInformer(s.workers, nil)
	byWorker := lw.NewIndex(jobs, func(j *Job) string { return j.Worker })
	var group lw.Group
	group.Add(jobs)
	group.Add(workers)
	running := make(chan error, 1)
	go func() { running <- group.Run(ctx) }()
	if err := group.WaitForSync(ctx); err != nil {
		return err
	}
	url, err := serveJobs(ctx, jobs, listen)
	if err != nil {
		return err
	}
	if ready != nil {
		ready(url)
	}
	for ctx.Err() == nil {
		// The channels come before the look, so that no change is missed.
		jobsChanged, workersChanged := jobs.Changed(ctx), workers.Changed(ctx)
		var again <-chan time.Time // after a write that has failed
		if err := s.assign(ctx, jobs, workers, byWorker); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
			again = time.After(time.Second)
		}
		select {
		case <-jobsChanged:
		case <-workersChanged:
		case <-again:
		case <-ctx.Done():
		}
	}
	cancel()
	return <-running
}

// assign gives each job without a worker that lives to the one that has the fewest.
func (s *stores) assign(ctx context.Context, jobs *lw.Informer[*Job], workers *lw.Informer[*Worker], byWorker *lw.Index[string, *Job]) error {
	for _, job := range jobs.Store().List() {
		if _, ok := workers.Store().Get(lw.Key{Name: job.Worker}); ok {
			continue
		}
		best := ""
		for _, w := range workers.Store().List() {
			if best == "" || byWorker.Len(w.Name) < byWorker.Len(best) {
				best = w.Name
			}
		}
		if best == job.Worker {
			continue // there is nobody
		}
		changed := *job // objects of a store are shared: never change one
		changed.Worker = best
		stored, err := s.jobs.Update(ctx, &changed)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			continue // somebody else has changed it, and the informer will say so
		case err != nil:
			return err
		}
		// Without this the next count of the index might not have this job.
		if err := jobs.WaitForResourceVersion(ctx, stored.ResourceVersion); err != nil {
			return err
		}
	}
	return nil
}

// serveJobs serves what an informer has, by the Kubernetes protocol.
func serveJobs(ctx context.Context, jobs *lw.Informer[*Job], listen string) (url string, err error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	h := serve.New(&serve.Options{Authorize: serve.AllowAll})
	go serve.Serve(ctx, h, jobs, serve.Resource[*Job]{Group: "example.com", Version: "v1", Name: "jobs", Kind: "Job"})
	srv := &http.Server{Handler: h}
	go srv.Serve(serve.Listener(l))
	context.AfterFunc(ctx, func() { _ = errors.Join(h.Close(), srv.Close()) })
	if err := h.WaitForSync(ctx); err != nil {
		return "", err
	}
	return "http://" + l.Addr().String(), nil
}
