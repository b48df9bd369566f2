package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// witness prints what it costs to be asked, after an outage, whether an object was there at a
// version: a list of one object by its name. A server that was restarted does not have that version
// in memory, and asks etcd.
func (m *meter) witness(ctx context.Context, out io.Writer, cfg config) error {
	if cfg.questions == 0 {
		return nil
	}
	version, err := m.s.Revision(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "\n| question | server and etcd, CPU | time |")
	fmt.Fprintln(out, "|---|---|---|")
	ask := func(when string) error {
		for _, path := range []string{"/api/v1/namespaces/cost/pods", collection} {
			where := "in all namespaces"
			if strings.Contains(path, "namespaces") {
				where = "in its namespace"
			}
			query := fmt.Sprintf("%s?fieldSelector=metadata.name%%3Dpod-%06d%%2Cmetadata.namespace%%3Dcost&resourceVersion=%d&resourceVersionMatch=Exact&limit=1",
				path, cfg.objects-1, version)
			c := newClient(m.s, false)
			before, err := m.cpuOfBoth()
			if err != nil {
				return err
			}
			began := time.Now()
			for range cfg.questions {
				if err := c.ask(ctx, query); err != nil {
					return err
				}
			}
			took := time.Since(began)
			after, err := m.cpuOfBoth()
			if err != nil {
				return err
			}
			n := time.Duration(cfg.questions)
			fmt.Fprintf(out, "| %s, %s | %v | %v |\n", where, when, ((after - before) / n).Round(10*time.Microsecond), (took / n).Round(10*time.Microsecond))
			c.close()
		}
		return nil
	}
	if err := ask("of a server that has run"); err != nil {
		return err
	}
	m.s.KillAPI()
	if err := m.s.StartAPI(ctx); err != nil {
		return err
	}
	// What the server does when it starts is none of the question's.
	time.Sleep(5 * time.Second)
	return ask("of a server that was restarted")
}

// ask reads an answer, which must have the object.
func (c *client) ask(ctx context.Context, query string) error {
	body, err := c.open(ctx, query, protobuf)
	if err != nil {
		return err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err == nil && !strings.Contains(string(data), "pod-") {
		err = fmt.Errorf("%s: no object in %d bytes", query, len(data))
	}
	return err
}

func (m *meter) cpuOfBoth() (time.Duration, error) {
	api, err := cpuOf(m.s.APIProcess())
	if err != nil {
		return 0, err
	}
	etcd, err := cpuOf(m.s.EtcdProcess())
	return api + etcd, err
}
