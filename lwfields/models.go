package main

import (
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// handlerPath is the package whose handlers pass on what a program gives them.
const handlerPath = "k8s.io/client-go/tools/cache"

// An effect is what a function of a library does with the objects that it is given.
type effect uint8

const (
	harmless effect = iota // it reads what identifies them, and makes of them nothing that has fields
	reads                  // it reads paths of each
	flows                  // its results are its arguments, or are of them
	keeps                  // it keeps its arguments, and what comes out later is what was put in
	reflects               // it reads all; class says what for
	live                   // harmless, and its results come from the server and not from a cache
	fills                  // harmless, and it stores an object in what an argument refers to
	copies                 // it copies its first argument into what the second refers to
	selects                // it reads the labels of the objects that it returns, if the selector is none
)

// A model is what is known of a function.
type model struct {
	kind   effect
	paths  []string
	class  string
	advice string
}

var (
	isHarmless = &model{kind: harmless}
	isFlow     = &model{kind: flows}
	isKept     = &model{kind: keeps}
	isLive     = &model{kind: live}
	isFilled   = &model{kind: fills}
	isSelect   = &model{kind: selects}
	isCopy     = &model{kind: copies}
	isWrite    = &model{kind: reflects, class: "written", advice: "read the object from the server first (mgr.GetAPIReader), or patch the fields"}
	isLogged   = &model{kind: reflects, class: "logged", advice: "log klog.KObj(object)"}
	isFormat   = &model{kind: reflects, class: "formatted", advice: "format the name: klog.KObj(object)"}
	isEncoded  = &model{kind: reflects, class: "encoded", advice: "encode a struct with the fields that are needed"}
	isCompared = &model{kind: reflects, class: "compared", advice: "compare the fields that matter"}
	isHashed   = &model{kind: reflects, class: "reflected", advice: "hash the fields that matter"}
	isReflect  = &model{kind: reflects, class: "reflected", advice: "name the fields"}
	isTemplate = &model{kind: reflects, class: "formatted", advice: "give the template a struct with the fields that it shows"}
)

func readsPaths(paths ...string) *model { return &model{kind: reads, paths: paths} }

const requiredAffinity = "nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

// podResources are what the sums of a pod's resources are made of. Which of them, the options say.
var podResources = []string{
	"spec.containers.name", "spec.containers.resources",
	"spec.initContainers.name", "spec.initContainers.resources", "spec.initContainers.restartPolicy",
	"spec.resources", "spec.overhead",
	"status.containerStatuses.name", "status.containerStatuses.resources", "status.containerStatuses.allocatedResources",
	"status.initContainerStatuses.name", "status.initContainerStatuses.resources", "status.initContainerStatuses.allocatedResources",
	"status.conditions.type", "status.conditions.reason",
	"status.resources", "status.allocatedResources", "status.nodeAllocatableResourceClaimStatuses",
}

// exact has functions by path.Func or path.Type.Method. An entry is of an interface's method where
// programs call that. Each is in a golden program.
var exact = map[string]*model{
	// apimachinery
	metaPath + ".GetControllerOf":                                                     readsPaths("metadata.ownerReferences"),
	metaPath + ".GetControllerOfNoCopy":                                               readsPaths("metadata.ownerReferences"),
	metaPath + ".IsControlledBy":                                                      readsPaths("metadata.ownerReferences"),
	metaPath + ".NewControllerRef":                                                    isHarmless,
	metaPath + ".HasAnnotation":                                                       readsPaths("metadata.annotations"),
	metaPath + ".HasLabel":                                                            readsPaths("metadata.labels"),
	metaPath + ".SetMetaDataAnnotation":                                               readsPaths("metadata.annotations"),
	metaPath + ".SetMetaDataLabel":                                                    readsPaths("metadata.labels"),
	metaPath + ".ObjectMetaAccessor.GetObjectMeta":                                    isFlow,
	metaPath + ".ObjectMeta.GetObjectMeta":                                            isFlow,
	metaPath + ".TypeMeta.GetObjectKind":                                              isLive,
	"k8s.io/apimachinery/pkg/runtime.Object.GetObjectKind":                            isLive,
	"k8s.io/apimachinery/pkg/runtime.Object.DeepCopyObject":                           isFlow,
	"k8s.io/apimachinery/pkg/api/meta.Accessor":                                       isFlow,
	"k8s.io/apimachinery/pkg/api/meta.CommonAccessor":                                 isFlow,
	"k8s.io/apimachinery/pkg/api/meta.TypeAccessor":                                   isHarmless,
	"k8s.io/apimachinery/pkg/api/meta.ExtractList":                                    isFlow,
	"k8s.io/apimachinery/pkg/api/meta.LenList":                                        isHarmless,
	"k8s.io/apimachinery/pkg/api/meta.IsListType":                                     isHarmless,
	"k8s.io/apimachinery/pkg/runtime.Scheme.ObjectKinds":                              isHarmless,
	"k8s.io/apimachinery/pkg/runtime.Scheme.AddKnownTypes":                            isHarmless,
	"k8s.io/apimachinery/pkg/runtime.ObjectTyper.ObjectKinds":                         isHarmless,
	"k8s.io/apimachinery/pkg/runtime.Encode":                                          isEncoded,
	"k8s.io/apimachinery/pkg/runtime.EncodeOrDie":                                     isEncoded,
	"k8s.io/apimachinery/pkg/runtime.Encoder.Encode":                                  isEncoded,
	"k8s.io/apimachinery/pkg/api/equality.Semantic":                                   isCompared,
	"k8s.io/apimachinery/third_party/forked/golang/reflect.Equalities.DeepEqual":      isCompared,
	"k8s.io/apimachinery/third_party/forked/golang/reflect.Equalities.DeepDerivative": isCompared,
	"k8s.io/apimachinery/pkg/conversion.Equalities.DeepEqual":                         isCompared,
	"k8s.io/apimachinery/pkg/runtime.HandleError":                                     isHarmless,

	// client-go
	"k8s.io/client-go/tools/cache.MetaNamespaceKeyFunc":                 isHarmless,
	"k8s.io/client-go/tools/cache.DeletionHandlingMetaNamespaceKeyFunc": isHarmless,
	"k8s.io/client-go/tools/cache.ObjectToName":                         isHarmless,
	"k8s.io/client-go/tools/cache.DeletionHandlingObjectToName":         isHarmless,
	"k8s.io/client-go/tools/cache.MetaNamespaceIndexFunc":               isHarmless,
	"k8s.io/client-go/tools/cache.MetaObjectToName":                     isHarmless,
	"k8s.io/client-go/tools/cache.ListAll":                              isSelect,
	"k8s.io/client-go/tools/cache.ListAllByNamespace":                   isSelect,
	"k8s.io/client-go/tools/reference.GetReference":                     isHarmless,
	"k8s.io/client-go/tools/record.EventRecorder.Event":                 isHarmless,
	"k8s.io/client-go/tools/record.EventRecorder.Eventf":                isHarmless,
	"k8s.io/client-go/tools/record.EventRecorder.AnnotatedEventf":       isHarmless,
	"k8s.io/client-go/tools/record.EventRecorderLogger.Event":           isHarmless,
	"k8s.io/client-go/tools/events.EventRecorder.Eventf":                isHarmless,
	// What package events calls EventRecorder is of an internal package since client-go v0.37.
	"k8s.io/client-go/tools/internal/events.EventRecorder.Eventf":                   isHarmless,
	"k8s.io/client-go/tools/internal/events.AnnotatedEventRecorder.AnnotatedEventf": isHarmless,
	"k8s.io/client-go/util/retry.RetryOnConflict":                                   isHarmless,
	"k8s.io/client-go/util/retry.OnError":                                           isHarmless,

	// apiserver and component-helpers
	"k8s.io/apiserver/pkg/registry/generic.AddObjectMetaFieldsSet":                       isHarmless,
	"k8s.io/component-helpers/scheduling/corev1.MatchNodeSelectorTerms":                  readsPaths("metadata.labels", "nodeSelectorTerms"),
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity.GetRequiredNodeAffinity":    readsPaths("spec.nodeSelector", "spec.affinity."+requiredAffinity),
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity.NewRequiredNodeAffinity":    readsPaths(requiredAffinity),
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity.RequiredNodeAffinity.Match": readsPaths("metadata.labels"),
	"k8s.io/component-helpers/resource.PodRequests":                                      readsPaths(podResources...),
	"k8s.io/component-helpers/resource.PodLimits":                                        readsPaths(podResources...),

	// klog: what identifies an object
	"k8s.io/klog/v2.KObj":                isHarmless,
	"k8s.io/klog/v2.KRef":                isHarmless,
	"k8s.io/klog/v2.KObjs":               isHarmless,
	"k8s.io/klog/v2.KObjSlice":           isHarmless,
	"k8s.io/klog/v2.NewContext":          isHarmless,
	"k8s.io/klog/v2.FromContext":         isHarmless,
	"github.com/go-logr/logr.NewContext": isHarmless,

	// controller-runtime
	"sigs.k8s.io/controller-runtime/pkg/client.ObjectKeyFromObject":                       isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/client.Reader.Get":                                isFilled,
	"sigs.k8s.io/controller-runtime/pkg/client.Reader.List":                               isSelect,
	"sigs.k8s.io/controller-runtime/pkg/client.Writer.Create":                             isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.Writer.Update":                             isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.Writer.Patch":                              isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.Writer.Apply":                              isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.Writer.Delete":                             isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/client.Writer.DeleteAllOf":                        isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/client.SubResourceWriter.Create":                  isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.SubResourceWriter.Update":                  isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.SubResourceWriter.Patch":                   isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.SubResourceWriter.Apply":                   isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.SubResourceReader.Get":                     isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/client.MergeFrom":                                 isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.MergeFromWithOptions":                      isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.StrategicMergeFrom":                        isWrite,
	"sigs.k8s.io/controller-runtime/pkg/client.FieldIndexer.IndexField":                   isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/client.Client.GroupVersionKindFor":                isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/client.Client.IsObjectNamespaced":                 isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil.GVKForObject":                      isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.AddFinalizer":           readsPaths("metadata.finalizers"),
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.ContainsFinalizer":      readsPaths("metadata.finalizers"),
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.RemoveFinalizer":        readsPaths("metadata.finalizers"),
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.SetControllerReference": readsPaths("metadata.ownerReferences"),
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.SetOwnerReference":      readsPaths("metadata.ownerReferences"),
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.HasControllerReference": readsPaths("metadata.ownerReferences"),
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.CreateOrUpdate":         isWrite,
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil.CreateOrPatch":          isWrite,
	"sigs.k8s.io/controller-runtime/pkg/builder.TypedBuilder.Owns":                        {kind: reads, paths: []string{"metadata.ownerReferences"}, class: "example"},
	"sigs.k8s.io/controller-runtime/pkg/cache.Informers.GetInformer":                      isHarmless,
	"sigs.k8s.io/controller-runtime/pkg/cache.Informers.RemoveInformer":                   isHarmless,

	// lw
	"github.com/go-lw/lw/clientgo.EnqueueOwner": {kind: reads, paths: []string{"metadata.ownerReferences"}, class: "example"},

	// the standard library
	"sync.Once.Do":         isHarmless,
	"sort.Slice":           isHarmless, // less is a function of the program
	"sort.SliceStable":     isHarmless,
	"sort.SliceIsSorted":   isHarmless,
	"sort.Sort":            isHarmless, // its methods are the program's
	"sort.Stable":          isHarmless,
	"sort.IsSorted":        isHarmless,
	"reflect.DeepEqual":    isCompared,
	"reflect.TypeOf":       isHarmless,
	"errors.As":            isHarmless,
	"errors.Is":            isHarmless,
	"errors.Join":          isFlow,
	"runtime.KeepAlive":    isHarmless,
	"runtime.SetFinalizer": isHarmless,
}

// keepers are types and functions of libraries that keep what they are given, and give it back.
var keepers = map[string]bool{
	"sync.Map": true, "sync.Pool": true, "sync/atomic.Value": true, "sync/atomic.Pointer": true, "sync/atomic": true,
	"container/list": true, "container/ring": true, "container/heap": true,
	"context": true, "context.Context": true,
	"golang.org/x/sync/singleflight.Group": true,
	"k8s.io/client-go/util/workqueue":      true,
	"sync":                                 true,
}

// families are packages of which all functions do the same, and the first path that fits counts.
var families = []struct {
	path  string
	model *model
}{
	{"fmt", isFormat},
	{"log", isLogged}, {"log/slog", isLogged}, {"github.com/go-logr/logr", isLogged}, {"k8s.io/klog/v2", isLogged}, {"go.uber.org/zap", isLogged},
	{"github.com/sirupsen/logrus", isLogged}, {"github.com/rs/zerolog", isLogged}, {"sigs.k8s.io/controller-runtime/pkg/log", isLogged},
	{"encoding", isEncoded}, {"sigs.k8s.io/yaml", isEncoded}, {"sigs.k8s.io/json", isEncoded}, {"go.yaml.in/yaml", isEncoded},
	{"github.com/json-iterator/go", isEncoded}, {"github.com/gogo/protobuf", isEncoded}, {"google.golang.org/protobuf", isEncoded},
	{"github.com/golang/protobuf", isEncoded}, {"k8s.io/apimachinery/pkg/util/json", isEncoded}, {"k8s.io/apimachinery/pkg/util/yaml", isEncoded},
	{"k8s.io/apimachinery/pkg/util/strategicpatch", isEncoded}, {"github.com/evanphx/json-patch", isEncoded}, {"gopkg.in/evanphx/json-patch", isEncoded},
	{"k8s.io/apimachinery/pkg/runtime/serializer", isEncoded}, {"github.com/fxamacker/cbor", isEncoded},
	{"github.com/google/go-cmp", isCompared}, {"github.com/stretchr/testify", isCompared},
	{"text/template", isTemplate}, {"html/template", isTemplate},
	{"reflect", isReflect}, {"github.com/davecgh/go-spew", isFormat}, {"k8s.io/apimachinery/pkg/util/dump", isFormat},
	{"github.com/mitchellh/hashstructure", isHashed}, {"k8s.io/utils/dump", isFormat}, {"unsafe", isReflect},
	{"testing", isFormat},
}

// modelOf returns what is known of a function; nil if its body is read, or if nothing is known.
func (a *analysis) modelOf(fn *ssa.Function) *model {
	obj, ok := originOf(fn).Object().(*types.Func)
	if !ok {
		return nil
	}
	// The method that a type has from a field has a body that calls the field's.
	p := a.p.of(obj.Pkg())
	return a.modelOfFunc(obj, fn.Blocks != nil && p != nil && p.source && !p.broken)
}

func originOf(fn *ssa.Function) *ssa.Function {
	if o := fn.Origin(); o != nil {
		return o
	}
	return fn
}

func (a *analysis) modelOfMethod(fn *types.Func) *model { return a.modelOfFunc(fn, false) }

// modelOfCall is the model of a call; nil for one of a function value.
func (a *analysis) modelOfCall(c *ssa.CallCommon) *model {
	if c.IsInvoke() {
		return a.modelOfMethod(c.Method)
	}
	if fn := c.StaticCallee(); fn != nil {
		return a.modelOf(fn)
	}
	return nil
}

func (a *analysis) modelOfFunc(fn *types.Func, body bool) *model {
	fn = fn.Origin()
	if m, ok := a.modelMemo[fn]; ok {
		return m
	}
	m := a.findModel(fn, body)
	a.modelMemo[fn] = m
	return m
}

func (a *analysis) findModel(fn *types.Func, body bool) *model {
	if fn.Pkg() == nil {
		return nil // error.Error
	}
	p, name := a.p.of(fn.Pkg()), fn.Name()
	full := fullName(fn)
	if m := accessor(full, name); m != nil {
		return m
	}
	if !body && (name == "OpenAPIModelName" || name == "SwaggerDoc" || name == "ProtoMessage" || strings.HasPrefix(name, "APILifecycle")) {
		return isHarmless
	}
	if p != nil && p.own && (body || !isCopier(name)) {
		return nil
	}
	if m, ok := exact[full]; ok {
		return m
	}
	if body {
		return nil
	}
	path, typ := fn.Pkg().Path(), strings.TrimSuffix(strings.TrimPrefix(full, fn.Pkg().Path()+"."), "."+name)
	switch {
	case name == "DeepCopyInto":
		return isCopy
	case isCopier(name):
		return isFlow
	case keepers[path+"."+typ] || keepers[path]:
		return isKept
	case path == "k8s.io/apimachinery/pkg/runtime/schema":
		return isLive
	case inPath(path, "github.com/go-lw/lw"):
		// lw asks objects for what identifies them; what it compares, it compares for itself.
		return isHarmless
	}
	if m := generatedModel(path, typ, name); m != nil {
		return m
	}
	for _, f := range families {
		if inPath(path, f.path) {
			return f.model
		}
	}
	if p != nil && p.caching {
		return cachingModel(path, typ, name)
	}
	return nil
}

func isCopier(name string) bool {
	return name == "DeepCopy" || name == "DeepCopyObject" || name == "DeepCopyInto"
}

func inPath(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// accessor is the model of a method of metav1.Object, and of the same methods of ObjectMeta.
func accessor(full, name string) *model {
	rest, ok := strings.CutPrefix(full, metaPath+".")
	for _, of := range []string{"TypeMeta.", "ListMeta.", "ListInterface.", "ListMetaAccessor.", "Type."} {
		if ok && strings.HasPrefix(rest, of) {
			return isLive // kinds, and the version of a list
		}
	}
	if !ok || !strings.HasPrefix(rest, "Object.") && !strings.HasPrefix(rest, "ObjectMeta.") && !strings.HasPrefix(rest, "Common.") {
		return nil
	}
	if strings.HasPrefix(name, "Set") {
		return isHarmless
	}
	field, ok := strings.CutPrefix(name, "Get")
	if !ok || name == "GetObjectMeta" {
		return nil
	}
	if field == "UID" {
		return isHarmless
	}
	return readsPaths("metadata." + strings.ToLower(field[:1]) + field[1:])
}

// generatedModel knows clients, listers and informers by their packages, as generators name them.
func generatedModel(path, typ, name string) *model {
	switch {
	case strings.Contains(path, "/listers/") || strings.HasSuffix(path, "/listers"):
		if name == "List" {
			return isSelect
		}
		return isHarmless
	case strings.Contains(path, "/informers/") || strings.HasSuffix(path, "/informers") || strings.Contains(path, "/informers/externalversions"):
		return isHarmless
	case strings.Contains(path, "/kubernetes/typed/") || strings.Contains(path, "/clientset/") || strings.Contains(path, "/dynamic") ||
		path == "k8s.io/client-go/gentype" || path == "k8s.io/client-go/kubernetes" || strings.Contains(path, "/clientset_generated/"):
		switch {
		case strings.HasPrefix(name, "Create") || strings.HasPrefix(name, "Update") || strings.HasPrefix(name, "Apply") || name == "Evict" || name == "Bind":
			return isClientWrite
		}
		return isLive
	}
	return nil
}

// isClientWrite is isWrite where what comes back is the server's.
var isClientWrite = &model{kind: reflects, class: "written", advice: isWrite.advice, paths: []string{"live"}}

// cachingModel is for client-go and controller-runtime, where a whole package is known.
func cachingModel(path, typ, name string) *model {
	switch path {
	case "k8s.io/client-go/tools/cache":
		switch typ {
		case "Store", "Indexer", "ThreadSafeStore", "SharedInformer", "SharedIndexInformer", "Controller", "GenericLister", "GenericNamespaceLister",
			"Queue", "Reflector", "ReflectorStore", "FIFO", "DeltaFIFO":
			if name == "List" && strings.HasSuffix(typ, "Lister") {
				return isSelect
			}
			return isHarmless
		}
		if strings.Contains(typ, "EventHandler") { // it calls functions of the program
			return isKept
		}
		if strings.HasPrefix(name, "New") {
			return isHarmless
		}
	case "k8s.io/client-go/metadata/metadatalister", "k8s.io/client-go/dynamic/dynamiclister":
		if name == "List" {
			return isSelect
		}
		return isHarmless
	case "sigs.k8s.io/controller-runtime/pkg/builder", "sigs.k8s.io/controller-runtime/pkg/manager", "sigs.k8s.io/controller-runtime/pkg/source",
		"sigs.k8s.io/controller-runtime/pkg/handler", "sigs.k8s.io/controller-runtime/pkg/predicate", "sigs.k8s.io/controller-runtime/pkg/cache",
		"sigs.k8s.io/controller-runtime/pkg/controller", "sigs.k8s.io/controller-runtime/pkg/cluster", "sigs.k8s.io/controller-runtime":
		return isHarmless
	case "k8s.io/client-go/tools/leaderelection", "k8s.io/client-go/tools/leaderelection/resourcelock", "k8s.io/client-go/rest":
		return isHarmless
	case "k8s.io/apimachinery/pkg/util/wait":
		return isHarmless
	case "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured":
		return isHarmless // what it walks are JSON's values: maps, slices and scalars
	case "k8s.io/apimachinery/pkg/runtime":
		switch {
		case strings.HasPrefix(name, "ToUnstructured"):
			return isEncoded
		case typ == "Scheme" || typ == "SchemeBuilder":
			if name == "Convert" || name == "Default" {
				return nil
			}
			return isHarmless
		}
	}
	return nil
}

// modelByName looks for a function that a program knows by an interface of its own: the first
// interface of a library with such a method says what it does.
func (a *analysis) modelByName(fn *types.Func) *model {
	var found *model
	for full, m := range exact {
		if m != nil && strings.HasSuffix(full, "."+fn.Name()) && strings.Contains(full, "EventRecorder.") {
			found = m
		}
	}
	return found
}

// fullName is path.Func or path.Type.Method, without stars and type parameters.
func fullName(fn *types.Func) string {
	fn = fn.Origin()
	path := ""
	if fn.Pkg() != nil {
		path = fn.Pkg().Path() + "."
	}
	recv := fn.Signature().Recv()
	if recv == nil {
		return path + fn.Name()
	}
	t := types.Unalias(recv.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if named, ok := t.(*types.Named); ok {
		return path + named.Obj().Name() + "." + fn.Name()
	}
	return path + "interface." + fn.Name()
}

// exampleType is the type of what is boxed for an argument, such as &corev1.Pod{}.
func exampleType(v ssa.Value) types.Type {
	if box, ok := v.(*ssa.MakeInterface); ok {
		if p, ok := box.X.Type().Underlying().(*types.Pointer); ok {
			return p.Elem()
		}
	}
	return nil
}

const metaPath = "k8s.io/apimachinery/pkg/apis/meta/v1"
