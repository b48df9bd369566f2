// Package driver runs programs twice, on whole objects and on objects that are cut to a mask, and
// compares what they print. It knows nothing of lwfields.
package driver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A Program prints something of pods.
type Program func(w io.Writer, pods []*corev1.Pod)

// Main reads the masks of the programs from stdin, as JSON, runs each rounds times, and prints a
// line for each whose output differs.
func Main(programs map[string]Program, rounds int) {
	var masks map[string][]string
	if err := json.NewDecoder(os.Stdin).Decode(&masks); err != nil {
		panic(err)
	}
	for name, run := range programs {
		mask, ok := masks[name]
		if !ok {
			fmt.Printf("%s: no mask\n", name)
			continue
		}
		printed := 0
		for seed := range uint64(rounds) {
			whole, cut := pods(seed), pods(seed)
			for _, p := range cut {
				Prune(p, mask)
			}
			want, got := output(run, whole), output(run, cut)
			printed += len(want)
			if want != got {
				fmt.Printf("%s: seed %d: cut to %q\n%s\n", name, seed, mask, difference(want, got))
				break
			}
		}
		if printed == 0 {
			fmt.Printf("%s: it prints nothing\n", name)
		}
	}
}

func output(run Program, pods []*corev1.Pod) (out string) {
	var b bytes.Buffer
	defer func() {
		if r := recover(); r != nil {
			out = address.ReplaceAllString(b.String()+fmt.Sprint("\npanic: ", r), "0x")
		}
	}()
	run(&b, pods)
	return address.ReplaceAllString(b.String(), "0x")
}

// Addresses and the time of a log record are other ones in each run.
var address = regexp.MustCompile(`0x[0-9a-f]{6,}|time=\S+`)

// difference returns the first line that differs, cut to what can be read.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i == len(g) {
			g = append(g, "")
		}
		if w[i] != g[i] {
			return fmt.Sprintf("line %d of whole objects: %.300s\n                 of cut ones: %.300s", i+1, w[i], g[i])
		}
	}
	return "more lines of cut objects"
}

func pods(seed uint64) []*corev1.Pod {
	r := rand.New(rand.NewPCG(seed, 1))
	var pods []*corev1.Pod
	for i := range 3 {
		p := &corev1.Pod{}
		Random(r, reflect.ValueOf(p).Elem(), 0)
		p.Name = fmt.Sprint("pod-", i)
		p.Annotations = nil // of which a random one is at random places of no interest
		if i > 0 {
			p.Annotations = map[string]string{"a": "x"}
		}
		pods = append(pods, p)
	}
	return pods
}

var words = []string{"", "a", "b", "Ready", "Running", "app", "x"}

// Random fills a value.
func Random(r *rand.Rand, v reflect.Value, depth int) {
	switch x := v.Addr().Interface().(type) {
	case *metav1.Time:
		*x = metav1.Time{Time: time.Unix(int64(r.IntN(1000)), 0).UTC()}
		return
	case *resource.Quantity:
		*x = *resource.NewQuantity(int64(r.IntN(5)), resource.DecimalSI)
		return
	case *intstr.IntOrString:
		*x = intstr.FromInt32(int32(r.IntN(9)))
		return
	case *metav1.FieldsV1:
		x.Raw = []byte(words[1+r.IntN(3)])
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if depth < 9 && r.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			Random(r, v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < 9 && r.IntN(5) > 0 {
			n := 1 + r.IntN(3)
			if depth > 3 {
				n = 1
			}
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				Random(r, v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			Random(r, key, depth+1)
			Random(r, elem, depth+1)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				Random(r, v.Field(i), depth+1)
			}
		}
	case reflect.String:
		v.SetString(words[r.IntN(len(words))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(r.IntN(4)))
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(4)))
	}
}

var identity = []string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}

// Prune leaves of an object what a mask keeps: what an informer with this mask holds. A mask with
// the path "ALL" keeps everything.
func Prune(object any, mask []string) {
	for _, path := range mask {
		if path == "ALL" {
			return
		}
	}
	prune(reflect.ValueOf(object).Elem(), append(mask[:len(mask):len(mask)], identity...), "")
}

func prune(v reflect.Value, mask []string, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			prune(v.Elem(), mask, path)
		}
		return
	case reflect.Slice:
		for i := range v.Len() {
			prune(v.Index(i), mask, path)
		}
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" && (f.Anonymous || strings.Contains(options, "inline")) {
			prune(v.Field(i), mask, path)
			continue
		}
		name := strings.TrimPrefix(path+"."+tag, ".")
		kept, below, present := false, false, false
		for _, m := range mask {
			kept = kept || m == name
			below = below || strings.HasPrefix(m, name+".")
			present = present || m == name+"?"
		}
		switch {
		case kept:
		case below:
			prune(v.Field(i), mask, name)
		case present:
			empty(v.Field(i))
		default:
			v.Field(i).SetZero()
		}
	}
}

// empty leaves of a value that it is there, and how many elements it has.
func empty(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
	case reflect.Map:
		if !v.IsNil() {
			for _, key := range v.MapKeys() {
				v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
			}
		}
	default:
		v.SetZero()
	}
}
