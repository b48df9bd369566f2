package clientgo

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/client-go/tools/cache"

	"github.com/go-lw/lw"
)

// shardOf returns options.ShardSelector, or nil. Package cache has the field since v0.38, so it has
// no name here: one source fits older versions as well.
func shardOf(options cache.SharedIndexInformerOptions) sharding.Selector {
	field := reflect.ValueOf(options).FieldByName("ShardSelector")
	if !field.IsValid() {
		return nil
	}
	selector, _ := field.Interface().(sharding.Selector)
	return selector
}

// sharded returns the part of src that tweak asks for, which holds where the server ignores it.
func sharded(src lw.Source[metav1.Object], tweak func(*metav1.ListOptions)) lw.Source[metav1.Object] {
	var opts metav1.ListOptions
	if tweak != nil {
		tweak(&opts)
	}
	if opts.ShardSelector == "" {
		return src
	}
	return lw.WithListOptions(src, func(o *metav1.ListOptions) { o.ShardSelector = opts.ShardSelector })
}

// textOf returns what a request says of selector; "": everything is selected.
func textOf(selector sharding.Selector) string {
	if isNil(selector) || selector.Empty() {
		return ""
	}
	return selector.String()
}
