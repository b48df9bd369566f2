package main

// packages are those of Istio that are taken as they are.
var packages = []string{
	"pkg/kube/krt", "pkg/cluster", "pkg/config/labels", "pkg/maps", "pkg/ptr", "pkg/queue", "pkg/slices",
	"pkg/util/identifier", "pkg/util/sets", "pkg/util/smallset",
}

// leftOut are files of these packages that need what is stubbed.
var leftOut = map[string]bool{"krt/informer.go": true, "krt/testing.go": true, "queue/delay.go": true}

// stubs are packages that stand for Istio's. They have what the packages above refer to.
var stubs = map[string]string{
	"go.mod": `module istio.io/istio

go 1.26.0

require (
	github.com/hashicorp/go-multierror v1.1.1
	go.uber.org/atomic v1.11.0
	istio.io/api v1.31.0-rc.0.0.20260824154656-b943409680a7
)
`,
	"pkg/kube/kube.go": `package kube

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"istio.io/istio/pkg/cluster"
)

type Client interface{ ClusterID() cluster.ID }

func WaitForCacheSync(name string, stop <-chan struct{}, synced ...cache.InformerSynced) bool {
	for _, s := range synced {
		for !s() {
			select {
			case <-stop:
				return false
			case <-time.After(time.Millisecond):
			}
		}
	}
	return true
}
`,
	"pkg/kube/controllers/controllers.go": `package controllers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type Object interface {
	SetGroupVersionKind(gvk schema.GroupVersionKind)
	metav1.Object
	runtime.Object
}

type ComparableObject interface {
	comparable
	Object
}

type EventType int

const (
	EventAdd EventType = iota
	EventUpdate
	EventDelete
)

func (e EventType) String() string { return [...]string{"add", "update", "delete"}[e] }
`,
	"pkg/config/config.go": `package config

type Config struct {
	Name, Namespace string
	Labels          map[string]string
}
`,
	"pkg/log/log.go": `package log

type Scope struct{}

func RegisterScope(name, description string) *Scope { return &Scope{} }

func (s *Scope) WithLabels(...any) *Scope { return s }
func (s *Scope) DebugEnabled() bool       { return false }
func (s *Scope) Debug(any)                {}
func (s *Scope) Debugf(string, ...any)    {}
func (s *Scope) Infof(string, ...any)     {}
func (s *Scope) Warn(any)                 {}
func (s *Scope) Warnf(string, ...any)     {}
func (s *Scope) Errorf(string, ...any)    {}

func WithLabels(...any) *Scope { return &Scope{} }
func Debugf(string, ...any)    {}
func Infof(string, ...any)     {}
func Warnf(string, ...any)     {}
func Errorf(string, ...any)    {}
`,
	"pilot/pkg/features/features.go": `package features

const EnableControllerQueueMetrics = false
`,
	"pkg/monitoring/monitoring.go": `package monitoring

type (
	Label      struct{}
	LabelValue struct{}
	Option     struct{}
	Metric     struct{}
)

func CreateLabel(string) Label                                          { return Label{} }
func (Label) Value(string) LabelValue                                   { return LabelValue{} }
func WithEnabled(func() bool) Option                                    { return Option{} }
func NewGauge(name, description string, _ ...Option) Metric             { return Metric{} }
func NewDistribution(name, text string, _ []float64, _ ...Option) Metric { return Metric{} }
func (m Metric) With(...LabelValue) Metric                              { return m }
func (m Metric) RecordInt(int64)                                        {}
func (m Metric) Record(float64)                                         {}
`,
}
