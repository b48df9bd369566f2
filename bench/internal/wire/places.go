package wire

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/bench/internal/compare"
)

// The sides of a program that keeps the name, node, phase and IP of pods. They read protobuf unless
// their name says otherwise.
const (
	placeSet     = "places"
	ownStruct    = "client-go, transform"
	metadataOnly = "client-go, metadata" // has no more than the name
	placesJSON   = "lw, JSON"
)

func init() {
	places := byLW(func() *lw.HTTP[*podPlace] { return &lw.HTTP[*podPlace]{Accept: string(Protobuf)} })
	sets[placeSet] = &set{podKind, map[string]side{
		compare.ClientGo: {follow: podsByClientGo(nil)},
		ownStruct:        {follow: podsByClientGo(toPlace)},
		metadataOnly:     {follow: metadataByClientGo, format: protobufMetadata},
		compare.LW:       {follow: places},
		placesJSON:       {follow: places, format: JSON},
	}}
}

// A podPlace is what lw decodes of a pod.
type podPlace struct {
	lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec    struct {
		NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
		PodIP string          `json:"podIP" protobuf:"bytes,6,opt,name=podIP"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// A clientGoPlace is the same for client-go's informers. They need a metav1.Object, of whose
// methods they call only those that it has itself: an ObjectMeta would take three times as much as
// the rest.
type clientGoPlace struct {
	metav1.Object             // nil
	name, namespace           string
	uid                       types.UID
	resourceVersion, node, ip string
	phase                     corev1.PodPhase
}

func (p *clientGoPlace) GetName() string            { return p.name }
func (p *clientGoPlace) GetNamespace() string       { return p.namespace }
func (p *clientGoPlace) GetUID() types.UID          { return p.uid }
func (p *clientGoPlace) GetResourceVersion() string { return p.resourceVersion }

// metadataByClientGo follows the metadata of pods by the informer of client-go's metadata factory.
func metadataByClientGo(ctx context.Context, f Following) (start func(), err error) {
	client, err := metadata.NewForConfig(f.Config)
	if err != nil {
		return nil, err
	}
	factory := metadatainformer.NewSharedInformerFactory(client, 0)
	inf := factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
	return func() { factory.Start(ctx.Done()) }, f.tell(inf)
}

// toPlace is a cache.TransformFunc. What it returns passes through it again.
func toPlace(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &clientGoPlace{
		name: pod.Name, namespace: pod.Namespace, uid: pod.UID, resourceVersion: pod.ResourceVersion,
		node: pod.Spec.NodeName, ip: pod.Status.PodIP, phase: pod.Status.Phase,
	}, nil
}

// streamPlaces measures what a program pays that keeps the name, node, phase and IP of 100k pods,
// of 5 KiB of protobuf each: with client-go's informer of pods, with a transform to a small struct
// of its own, which is the best that client-go offers, with its informer of metadata, which has
// only the name, and with lw's HTTP source of a small struct, over protobuf and over JSON.
func streamPlaces(n int) compare.Case {
	return measured(compare.Case{Name: "projection, streamed", Lines: []compare.Line{
		{Row: 31, What: "name, node, phase and IP: live heap a pod", Unit: compare.Bytes, Key: "live",
			Goal: compare.Times(40), Chart: true},
		{Row: 31, What: "name, node, phase and IP: live heap a pod, at most", Unit: compare.Bytes, Key: "live",
			Base: ownStruct, Goal: compare.Most(350)},
		{Row: 31, What: "name, node, phase and IP: peak RSS of the sync", Unit: compare.Bytes, Key: "peak"},
		{Row: 31, What: "name, node, phase and IP: sync CPU a pod", Unit: compare.Nanoseconds, Key: "sync.cpu",
			Goal: compare.Times(15), Chart: true},
		{Row: 31, What: "name, node, phase and IP, against a transform: sync CPU a pod", Unit: compare.Nanoseconds,
			Key: "sync.cpu", Base: ownStruct, Goal: compare.Times(10)},
		{Row: 31, What: "name, node, phase and IP, against a transform: event CPU", Unit: compare.Nanoseconds,
			Key: "status.cpu", Base: ownStruct, Goal: compare.Times(6)},
		{Row: 31, What: "name, node, phase and IP, against a transform: bytes an event", Unit: compare.Bytes,
			Key: "status.bytes", Base: ownStruct},
		{Row: 31, What: "name, node, phase and IP, against a transform: peak RSS of the sync", Unit: compare.Bytes,
			Key: "peak", Base: ownStruct},
		{Row: 31, What: "name, node, phase and IP, against metadata only: live heap a pod", Unit: compare.Bytes, Key: "live",
			Base: metadataOnly},
		{Row: 31, What: "name, node, phase and IP, against metadata only: sync CPU a pod", Unit: compare.Nanoseconds,
			Key: "sync.cpu", Base: metadataOnly},
		{Row: 31, What: "name, node, phase and IP, against metadata only: event CPU", Unit: compare.Nanoseconds,
			Key: "status.cpu", Base: metadataOnly},
		{Row: 31, What: "name, node, phase and IP, lw over JSON, client-go over protobuf: live heap a pod",
			Unit: compare.Bytes, Key: "live", Side: placesJSON},
		{Row: 31, What: "name, node, phase and IP, lw over JSON, client-go over protobuf: sync CPU a pod",
			Unit: compare.Nanoseconds, Key: "sync.cpu", Side: placesJSON},
		{Row: 31, What: "name, node, phase and IP, lw over JSON, client-go over protobuf: event CPU",
			Unit: compare.Nanoseconds, Key: "status.cpu", Side: placesJSON},
	}}, job{Set: placeSet, Path: streamed, Format: Protobuf, N: n, Default: 100_000, Changes: []string{changedStatus}},
		compare.ClientGo, ownStruct, metadataOnly, compare.LW, placesJSON)
}
