package controllerruntime

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/prom"
)

// settings are the lw.Options of the informers of one cache.
type settings struct {
	all    lw.Options // of every informer, but for the name
	prefix string
	byForm map[form]lw.Options
}

// settings returns those that o asks for, and registers the series of its Board.
func (o Options) settings() (settings, error) {
	s := settings{all: lw.Options{Board: o.Board, OnError: o.OnError, Logger: o.Logger}}
	if o.Name != "" {
		s.prefix = o.Name + "/"
	}
	var err error
	if s.byForm, err = byForm("ByObject", o.ByObject); err != nil {
		return s, err
	}
	if o.Metrics == nil {
		return s, nil
	}
	s.all.Board = o.board()
	collector := prom.Collector(s.all.Board)
	err = o.Metrics.Register(collector)
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if there.ExistingCollector == collector {
			return s, nil
		}
		return s, errors.New("the registry of Metrics has the series of another Board: give both caches one Board")
	}
	if err != nil {
		return s, fmt.Errorf("registering the series of Metrics: %w", err)
	}
	return s, nil
}

// board returns the Board that o has, nil if none.
func (o Options) board() *lw.Board {
	if o.Board == nil && o.Metrics != nil {
		return &processBoard
	}
	return o.Board
}

// of returns the settings of the informer whose objects are like example.
func (s settings) of(example runtime.Object) *lw.Options {
	f := formOf(example)
	own := s.byForm[f]
	own.Name = s.prefix + cmp.Or(own.Name, f.name())
	own.Board = cmp.Or(own.Board, s.all.Board)
	own.Logger = cmp.Or(own.Logger, s.all.Logger)
	if own.OnError == nil {
		own.OnError = s.all.OnError
	}
	return &own
}

var metadataType = reflect.TypeFor[*metav1.PartialObjectMetadata]()

// name returns what an informer of the form is called: its kind. A program may have one of the same
// kind in each form.
func (f form) name() string {
	if f.kind.Empty() {
		return f.typ.Elem().Name()
	}
	if f.typ == metadataType {
		return f.kind.Kind + " metadata"
	}
	return f.kind.Kind
}
