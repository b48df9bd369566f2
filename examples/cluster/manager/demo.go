package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwtest"
)

// demo runs the manager on a server in memory, lets things happen, and returns nil if the server
// has what it should have each time.
func demo(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	server := lwtest.StartServer(
		lwtest.Resource{Plural: "namespaces", Kind: "Namespace", Cluster: true},
		lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"},
	)
	defer server.Close()
	namespaces := lwtest.Objects[*corev1.Namespace](server, "namespaces")
	infos := lwtest.Objects[*corev1.ConfigMap](server, "configmaps")

	// The server reads and writes JSON alone.
	config := &rest.Config{
		Host: server.URL(), Transport: server.Client().Transport,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
	var board lw.Board
	registry := prometheus.NewRegistry()
	mgr, err := newManager(config, ctrl.Options{
		Logger:  logr.FromSlogHandler(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Metrics: metricsserver.Options{BindAddress: "0"}, // no port
		// A test may run this more than once in one process.
		Controller: controllerconfig.Controller{SkipNameValidation: new(true)},
	}, &board, registry)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(running) }()

	label := func(namespace string, labels map[string]string) error {
		ns, err := namespaces.Get(lw.Key{Name: namespace})
		if err != nil {
			return err
		}
		ns.Labels = labels
		_, err = namespaces.Update(ns)
		return err
	}
	for _, step := range []struct {
		what string
		do   func() error
		want map[string]string // the teams by namespace
	}{
		{"two teams have namespaces, and a third namespace has no team", func() error {
			for name, team := range map[string]string{"a": "red", "b": "blue", "c": ""} {
				ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if team != "" {
					ns.Labels = map[string]string{teamLabel: team}
				}
				if _, err := namespaces.Create(ns); err != nil {
					return err
				}
			}
			return nil
		}, map[string]string{"a": "red", "b": "blue"}},
		{"somebody deletes what belongs to a team", func() error {
			return infos.Delete(lw.Key{Namespace: "a", Name: "example-team"})
		}, map[string]string{"a": "red", "b": "blue"}},
		{"the connection breaks, and a namespace changes hands", func() error {
			server.Break()
			return label("b", map[string]string{teamLabel: "green"})
		}, map[string]string{"a": "red", "b": "green"}},
		{"a namespace loses its team", func() error { return label("a", nil) }, map[string]string{"b": "green"}},
	} {
		fmt.Fprintln(out, step.what)
		if err := step.do(); err != nil {
			return err
		}
		for {
			have := map[string]string{}
			for info := range infos.All() {
				have[info.Namespace] = info.Data["name"]
			}
			if fmt.Sprint(have) == fmt.Sprint(step.want) {
				break
			}
			select {
			case <-time.After(5 * time.Millisecond):
			case err := <-ended:
				return fmt.Errorf("the manager has ended: %w", err)
			case <-ctx.Done():
				return fmt.Errorf("%s: the server has %v, want %v", step.what, have, step.want)
			}
		}
	}
	fmt.Fprintln(out, "on the board:")
	for name, s := range board.Informers() {
		fmt.Fprintf(out, "  %s: %v, %d objects, decoded by %s\n", name, s.Phase, s.Objects, s.Decoder)
	}
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "in the registry: %d series of lw by name\n", len(families))
	if len(families) == 0 {
		return errors.New("the registry has no series of the cache")
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	fmt.Fprintln(out, "the manager has stopped; the server has what the namespaces want")
	return nil
}
