package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/go-lw/lw"
)

// demo runs the controller on an etcd in this process.
func demo(ctx context.Context, listen string) error {
	dir, err := os.MkdirTemp("", "lw-etcd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel = dir, "fatal"
	local := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls, cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = local, local, local, local
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return connected([]string{server.Clients[0].Addr().String()}, func(s *stores) error { return s.scenario(ctx, listen) })
}

// scenario starts workers, jobs and the controller, and lets one worker go away.
func (s *stores) scenario(ctx context.Context, listen string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	leases := map[string]func() error{}
	for i := range 3 {
		name := fmt.Sprintf("worker-%d", i)
		lease, err := s.client.Grant(ctx, 30)
		if err != nil {
			return err
		}
		if _, err := s.workers.WithLease(lease.ID).Create(ctx, &Worker{Meta: lw.Meta{Name: name}, Address: "10.0.0." + fmt.Sprint(i)}); err != nil {
			return err
		}
		leases[name] = func() error { _, err := s.client.Revoke(ctx, lease.ID); return err }
	}
	for i := range 30 {
		if _, err := s.jobs.Create(ctx, &Job{Meta: lw.Meta{Namespace: "demo", Name: fmt.Sprintf("job-%02d", i)}, Command: "true"}); err != nil {
			return err
		}
	}
	ready, ended := make(chan string, 1), make(chan error, 1)
	controlled, stop := context.WithCancel(ctx)
	defer stop()
	go func() { ended <- s.control(controlled, listen, func(url string) { ready <- url }) }()
	var at string
	select {
	case at = <-ready:
	case err := <-ended:
		return err
	}
	if err := waitForJobs(ctx, at, map[string]int{"worker-0": 10, "worker-1": 10, "worker-2": 10}); err != nil {
		return err
	}
	if err := leases["worker-1"](); err != nil {
		return err
	}
	if err := waitForJobs(ctx, at, map[string]int{"worker-0": 15, "worker-2": 15}); err != nil {
		return err
	}
	stop()
	return <-ended
}

// waitForJobs waits until the jobs, as they are served, are at workers in those numbers. A
// collection that is not served yet is not found, which is no failure.
func waitForJobs(ctx context.Context, url string, want map[string]int) error {
	for {
		got, err := countJobs(ctx, url)
		if err == nil && fmt.Sprint(got) == fmt.Sprint(want) {
			fmt.Println(url+"/apis/example.com/v1/jobs:", got)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the jobs are at %v, want %v: %w", got, want, errors.Join(err, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// countJobs lists the jobs by HTTP, as curl would.
func countJobs(ctx context.Context, url string) (map[string]int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/apis/example.com/v1/jobs", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	var list struct{ Items []Job }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, err
	}
	n := map[string]int{}
	for _, job := range list.Items {
		n[job.Worker]++
	}
	return n, nil
}
