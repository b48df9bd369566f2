package main

import (
	"flag"
	"fmt"
	"go/format"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	programCount = flag.Int("programs", 60, "so many generated programs")
	programSeed  = flag.Uint64("seed", 1, "the first of their seeds")
)

// TestGeneratedPrograms: random programs, which are made of the ways in which values travel, print
// the same of whole objects and of objects that are cut to the masks that are found.
//
//	go test -run TestGeneratedPrograms . -programs 2000 -seed 100 -timeout 30m
func TestGeneratedPrograms(t *testing.T) {
	work := module(t)
	masks := map[string][]string{}
	for i := range *programCount {
		seed := *programSeed + uint64(i)
		name := fmt.Sprintf("p%d", seed)
		text, err := format.Source([]byte(newGenerator(seed).program(name)))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		write(t, filepath.Join(work, name, name+".go"), string(text))
	}
	narrow := 0
	for _, g := range programs(t, work, "./...") {
		if g.name == "driver" {
			continue
		}
		masks[g.name] = g.mask()
		if !slices.Contains(masks[g.name], "ALL") {
			narrow++
		}
	}
	if len(masks) != *programCount || narrow < len(masks)/2 {
		t.Errorf("%d programs, of which %d do not need all", len(masks), narrow)
	}
	runTwice(t, work, masks)
	if t.Failed() {
		for name := range masks {
			t.Logf("%s: go test -run TestGeneratedPrograms . -programs 1 -seed %s", name, name[1:])
			break
		}
	}
}

// A generator makes a program. Its templates name the types of the expressions in them.
type generator struct {
	r     *rand.Rand
	b     strings.Builder
	scope [][]variableOf
	n     int // of names
	funcs []helper
	deep  int
}

type variableOf struct{ typ, name string }

type helper struct {
	name, result string
	params       []string
}

// goTypes are the types of variables.
var goTypes = map[string]string{
	"pod": "*corev1.Pod", "podv": "corev1.Pod", "specp": "*corev1.PodSpec", "spec": "corev1.PodSpec", "statusp": "*corev1.PodStatus",
	"conts": "[]corev1.Container", "cont": "corev1.Container", "conds": "[]corev1.PodCondition", "ports": "[]corev1.ContainerPort",
	"any": "any", "obj": "metav1.Object", "int": "int", "str": "string", "bool": "bool", "fn": "func() string", "hold": "*holder",
}

// expressions of each type; the first needs no other.
var expressions = map[string][]string{
	"pod":     {"pods[0]", "pods[<int>%len(pods)]", "<pod>.DeepCopy()", "asPod(<any>, <pod>)", "ref(<podv>)", "or(<hold>.pod, <pod>)"},
	"podv":    {"(*pods[0])", "(*<pod>)", "(corev1.Pod{Spec: <spec>})"},
	"specp":   {"(&pods[0].Spec)", "(&<pod>.Spec)", "asSpec(<any>, <specp>)", "same(<specp>)", "ref(<spec>)", "or(<hold>.spec, <specp>)", "take(<specp>)"},
	"spec":    {"pods[0].Spec", "(*<specp>)", "<pod>.Spec", "func() corev1.PodSpec { return <spec> }()", "specs[<lit>]", "template.Spec.Template.Spec", "corev1.PodSpec(mySpec(<spec>))"},
	"statusp": {"(&pods[0].Status)", "(&<pod>.Status)", "<pod>.Status.DeepCopy()", "or(<hold>.status, <statusp>)"},
	"conts":   {"pods[0].Spec.Containers", "<specp>.Containers", "<specp>.InitContainers", "append(<conts>, <conts>...)", "slices.Clone(<conts>)", "tail(<conts>)", "<hold>.list", "asConts(<any>, <conts>)", "sortedBy(<conts>)"},
	"cont":    {"at(pods[0].Spec.Containers, 0)", "at(<conts>, <int>)"},
	"conds":   {"pods[0].Status.Conditions", "<statusp>.Conditions", "slices.Collect(slices.Values(<conds>))"},
	"ports":   {"at(pods[0].Spec.Containers, 0).Ports", "<cont>.Ports"},
	"any":     {"any(pods[0])", "any(<pod>)", "any(<specp>)", "any(<spec>)", "any(<conts>)", "any(<statusp>)", "any(<conds>)", "global", "(box{<any>}).x", "kept(<lit>)"},
	"obj":     {"metav1.Object(pods[0])", "metav1.Object(<pod>)", "asObject(<any>, <pod>)"},
	"int":     {"1", "len(<conts>)", "len(<conds>)", "len(<str>)"},
	"lit":     {`"a"`, `"b"`, `"app"`, `"x"`},
	"str":     {"pods[0].Name", "<specp>.NodeName", "<specp>.Hostname", "<pod>.Labels[<lit>]", "<obj>.GetAnnotations()[<lit>]", "<obj>.GetName()", "<cont>.Image", "<cont>.Name", "string(<statusp>.Phase)", "<statusp>.PodIP", "at(<conds>, <int>).Reason", "string(at(<conds>, <int>).Type)", "fmt.Sprint(<ports>)", `fmt.Sprintf("%T", <any>)`, "fmt.Sprint(<specp>.NodeSelector)", "<fn>()", "show(<any>)", "describe(mySpec(<spec>))", "fmt.Sprint(<hold>.names())", "at(<ports>, <int>).Name"},
	"bool":    {"len(pods) > 1", "<specp>.HostNetwork", "<specp>.SecurityContext != nil", "<str> == <str>", "<statusp>.StartTime != nil", "<pod>.DeletionTimestamp.IsZero()", "<int> > <int>"},
	"fn":      {`func() string { return "f" }`, "func() string { return <str> }", "mySpec(<spec>).host", "pick(<fn>, <fn>)"},
	"hold":    {"(&theHolder)", "(&holder{spec: <specp>})", "(&holder{list: <conts>})", "(&holder{pod: <pod>, status: <statusp>})"},
}

// expr returns an expression.
func (g *generator) expr(typ string) string {
	var vars []string
	for _, s := range g.scope {
		for _, v := range s {
			if v.typ == typ {
				vars = append(vars, v.name)
			}
		}
	}
	if len(vars) > 0 && g.r.IntN(3) > 0 {
		return vars[g.r.IntN(len(vars))]
	}
	if g.deep > 4 {
		return expressions[typ][0]
	}
	var calls []helper
	for _, f := range g.funcs {
		if f.result == typ {
			calls = append(calls, f)
		}
	}
	g.deep++
	defer func() { g.deep-- }()
	if len(calls) > 0 && g.r.IntN(4) == 0 {
		return g.callOf(calls[g.r.IntN(len(calls))])
	}
	return g.fill(expressions[typ][g.r.IntN(len(expressions[typ]))])
}

func (g *generator) callOf(f helper) string {
	args := []string{"w", "pods"}
	for _, p := range f.params {
		args = append(args, g.expr(p))
	}
	return f.name + "(" + strings.Join(args, ", ") + ")"
}

// fill replaces <type> by expressions.
func (g *generator) fill(template string) string {
	for {
		from := strings.IndexByte(template, '<')
		if from < 0 {
			return template
		}
		to := from + strings.IndexByte(template[from:], '>')
		if to < from {
			return template
		}
		typ := template[from+1 : to]
		if _, ok := expressions[typ]; !ok {
			return template
		}
		template = template[:from] + g.expr(typ) + template[to+1:]
	}
}

var declared = []string{"pod", "podv", "specp", "spec", "statusp", "conts", "cont", "conds", "ports", "any", "obj", "str", "fn", "hold"}

// statement writes one.
func (g *generator) statement(depth int) {
	if depth > 3 {
		fmt.Fprintf(&g.b, "fmt.Fprintln(w, %s)\n", g.expr("str"))
		return
	}
	block := func(vars ...variableOf) {
		g.scope = append(g.scope, vars)
		for range 1 + g.r.IntN(3) {
			g.statement(depth + 1)
		}
		g.scope = g.scope[:len(g.scope)-1]
	}
	switch g.r.IntN(16) {
	case 0, 1, 2, 3:
		typ := declared[g.r.IntN(len(declared))]
		value := g.expr(typ)
		g.n++
		name := fmt.Sprint("v", g.n)
		fmt.Fprintf(&g.b, "var %s %s = %s\n_ = %s\n", name, goTypes[typ], value, name)
		top := len(g.scope) - 1
		g.scope[top] = append(g.scope[top], variableOf{typ, name})
	case 4, 5, 6:
		fmt.Fprintf(&g.b, "fmt.Fprintln(w, %s)\n", g.expr("str"))
	case 7:
		fmt.Fprintf(&g.b, "if %s {\n", g.expr("bool"))
		block()
		g.b.WriteString("}\n")
	case 8:
		list, elem := "conts", "cont"
		g.n++
		name := fmt.Sprint("c", g.n)
		fmt.Fprintf(&g.b, "for _, %s := range first3(%s) {\n_ = %s\n", name, g.expr(list), name)
		block(variableOf{elem, name})
		g.b.WriteString("}\n")
	case 9:
		g.b.WriteString([]string{"func() {\n", "defer func() {\n"}[g.r.IntN(2)])
		block()
		g.b.WriteString("}()\n")
	case 10:
		g.n++
		name := fmt.Sprint("x", g.n)
		types := []string{"pod", "specp", "spec", "conts", "statusp", "obj"}
		g.r.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
		fmt.Fprintf(&g.b, "switch %s := %s.(type) {\n", name, g.expr("any"))
		for _, typ := range types[:3] {
			fmt.Fprintf(&g.b, "case %s:\n_ = %s\n", goTypes[typ], name)
			block(variableOf{typ, name})
		}
		fmt.Fprintf(&g.b, "default:\n_ = %s\n", name)
		block(variableOf{"any", name})
		g.b.WriteString("}\n")
	case 11:
		stores := []string{"global = <any>", "specs[<lit>] = <spec>", "theHolder.spec = <specp>", "theHolder.list = <conts>", "theHolder.pod = <pod>", "template.Spec.Template.Spec = <spec>", "objects.Store(<lit>, <any>)", "<hold>.status = <statusp>", "set(<conts>, <cont>)", "*<specp> = <spec>", "give(<specp>)"}
		fmt.Fprintln(&g.b, g.fill(stores[g.r.IntN(len(stores))]))
	case 12: // assign to a variable
		var vars []variableOf
		for _, s := range g.scope {
			vars = append(vars, s...)
		}
		vars = slices.DeleteFunc(vars, func(v variableOf) bool { return v.name[0] != 'v' })
		if len(vars) == 0 {
			return
		}
		v := vars[g.r.IntN(len(vars))]
		fmt.Fprintf(&g.b, "%s = %s\n", v.name, g.expr(v.typ))
	case 13:
		if len(g.funcs) > 0 {
			fmt.Fprintf(&g.b, "_ = %s\n", g.callOf(g.funcs[g.r.IntN(len(g.funcs))]))
		}
	case 14:
		fmt.Fprintf(&g.b, "fmt.Fprintln(w, %s)\n", g.expr("bool"))
	case 15:
		fmt.Fprintf(&g.b, "visit(%s, func(p printer) { p.print(w) })\n", g.expr("spec"))
	}
}

// newGenerator returns the generator of a seed.
func newGenerator(seed uint64) *generator { return &generator{r: rand.New(rand.NewPCG(seed, 7))} }

// program returns the text of a program.
func (g *generator) program(name string) string {
	fmt.Fprintf(&g.b, generatedHead, name)
	for i := range 1 + g.r.IntN(3) {
		f := helper{name: fmt.Sprint("h", i), result: declared[g.r.IntN(len(declared))]}
		var params []variableOf
		text := "w io.Writer, pods []*corev1.Pod"
		for j := range 1 + g.r.IntN(2) {
			typ := declared[g.r.IntN(len(declared))]
			f.params = append(f.params, typ)
			params = append(params, variableOf{typ, fmt.Sprint("a", j)})
			text += fmt.Sprintf(", a%d %s", j, goTypes[typ])
		}
		fmt.Fprintf(&g.b, "func %s(%s) %s {\n", f.name, text, goTypes[f.result])
		g.scope = [][]variableOf{params}
		for range 2 + g.r.IntN(3) {
			g.statement(1)
		}
		fmt.Fprintf(&g.b, "return %s\n}\n\n", g.expr(f.result))
		g.funcs = append(g.funcs, f)
	}
	g.b.WriteString("// Run is the program.\nfunc Run(w io.Writer, pods []*corev1.Pod) {\nreset()\n")
	g.scope = [][]variableOf{nil}
	for range 6 + g.r.IntN(8) {
		g.statement(0)
	}
	fmt.Fprintf(&g.b, "fmt.Fprintln(w, %s)\n}\n", g.expr("str"))
	return g.b.String()
}

// generatedHead has the helpers of all programs.
const generatedHead = `package %s

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type holder struct {
	pod    *corev1.Pod
	spec   *corev1.PodSpec
	status *corev1.PodStatus
	list   []corev1.Container
}

func (h *holder) names() (all []string) {
	for _, c := range h.list {
		all = append(all, c.Name)
	}
	return all
}

type box struct{ x any }

type mySpec corev1.PodSpec

func (s mySpec) host() string { return s.Hostname }

type printer interface{ print(w io.Writer) }

func (s mySpec) print(w io.Writer) { fmt.Fprintln(w, s.SchedulerName) }

type subdomain struct{ s *corev1.PodSpec }

func (d *subdomain) print(w io.Writer) { fmt.Fprintln(w, d.s.Subdomain) }

type byImage []corev1.Container

func (b byImage) Len() int           { return len(b) }
func (b byImage) Less(i, j int) bool { return b[i].Image < b[j].Image }
func (b byImage) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

var (
	global    any
	specs     = map[string]corev1.PodSpec{}
	theHolder holder
	template  = &appsv1.Deployment{}
	objects   sync.Map
	queue     = make(chan *corev1.PodSpec, 1)
)

func reset() {
	global, theHolder, template = nil, holder{}, &appsv1.Deployment{}
	clear(specs)
	objects.Clear()
	queue = make(chan *corev1.PodSpec, 1)
}

func kept(key string) any { v, _ := objects.Load(key); return v }

func give(s *corev1.PodSpec) {
	select {
	case queue <- s:
	default:
	}
}

func take(s *corev1.PodSpec) *corev1.PodSpec {
	select {
	case t := <-queue:
		return t
	default:
		return s
	}
}

func ref[T any](v T) *T { return &v }

func same[T any](v T) T { return v }

func or[T any](p, q *T) *T {
	if p != nil {
		return p
	}
	return q
}

func at[T any](list []T, i int) (v T) {
	if i >= 0 && i < len(list) {
		return list[i]
	}
	return v
}

func tail[T any](list []T) []T { return list[len(list)/2:] }

func first3[T any](list []T) []T { return list[:min(3, len(list))] }

func set[T any](list []T, v T) {
	if len(list) > 0 {
		list[0] = v
	}
}

func sortedBy(list []corev1.Container) []corev1.Container {
	list = slices.Clone(list)
	sort.Stable(byImage(list))
	return list
}

func asPod(x any, p *corev1.Pod) *corev1.Pod {
	if q, ok := x.(*corev1.Pod); ok {
		return q
	}
	return p
}

func asSpec(x any, p *corev1.PodSpec) *corev1.PodSpec {
	switch x := x.(type) {
	case *corev1.PodSpec:
		return x
	case corev1.PodSpec:
		return &x
	}
	return p
}

func asConts(x any, c []corev1.Container) []corev1.Container {
	if l, ok := x.([]corev1.Container); ok {
		return l
	}
	return c
}

func asObject(x any, p *corev1.Pod) metav1.Object {
	if o, ok := x.(metav1.Object); ok {
		return o
	}
	return p
}

func pick(f, g func() string) func() string {
	if len(f()) > 2 {
		return g
	}
	return f
}

func describe(s mySpec) string { return s.ServiceAccountName }

func visit(s corev1.PodSpec, f func(printer)) {
	for _, p := range []printer{mySpec(s), &subdomain{&s}} {
		f(p)
	}
}

func show(x any) string {
	switch x := x.(type) {
	case *corev1.Pod:
		return x.Status.HostIP
	case interface{ GetLabels() map[string]string }:
		return fmt.Sprint(x.GetLabels())
	case *corev1.PodStatus:
		return x.Message
	case []corev1.PodCondition:
		return fmt.Sprint(len(x))
	}
	return "?"
}

`
