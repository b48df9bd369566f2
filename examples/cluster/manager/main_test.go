package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/lwdebug"
	"github.com/go-lw/lw/lwtest"
)

// The demonstration is the test. In a bubble its clock is its own, and whatever is still running at
// the end is a failure.
func TestDemo(t *testing.T) {
	// The second of these handlers pauses, by the time of the last error in the whole process. The
	// clock of a bubble begins in the year 2000, so it would pause for decades.
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = handlers[:1]
	defer func() { utilruntime.ErrorHandlers = handlers }()
	synctest.Test(t, func(t *testing.T) {
		if err := demo(t.Context(), t.Output()); err != nil {
			t.Error(err)
		}
	})
}

// In an hour in which namespaces change hands, no key runs in a loop.
func TestNoLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := lwtest.NewServer(t, lwtest.Resource{Plural: "namespaces", Kind: "Namespace", Cluster: true}, lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap"})
		namespaces := lwtest.Objects[*corev1.Namespace](server, "namespaces")
		config := &rest.Config{Host: server.URL(), Transport: server.Client().Transport, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
		var board lw.Board
		mgr, err := newManager(config, ctrl.Options{
			Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: controllerconfig.Controller{SkipNameValidation: new(true)},
		}, &board, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		time.Sleep(time.Minute)
		for i := range 600 {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ns-", i%3), Labels: map[string]string{teamLabel: fmt.Sprint(i % 4)}}}
			_, err := namespaces.Create(ns)
			if err != nil {
				_, err = namespaces.Update(ns)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(i%12) * time.Second)
		}
		var report struct {
			Controllers []struct {
				Runs  int
				Loops []any
			}
		}
		if err := json.Unmarshal([]byte(lwdebug.Var(&board).String()), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Controllers) != 1 || report.Controllers[0].Runs < 600 || len(report.Controllers[0].Loops) > 0 {
			t.Errorf("%+v", report)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
