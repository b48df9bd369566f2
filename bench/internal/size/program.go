package size

import (
	"fmt"
	"strings"
	"text/template"
)

// A program is a small program that follows kinds of objects, each by an informer with a handler
// and an index by namespace.
type program struct {
	name string
	// source is the template of its main package.
	source *template.Template
	// Kinds are the kinds that it follows.
	Kinds []kind
	// Clientset says that the program uses a generated clientset as well.
	Clientset bool
}

// A kind is one of the core API's, by the names of its Go type and of its resource.
type kind struct{ Type, Resource string }

// URL is the path of the collection.
func (k kind) URL() string { return "/api/v1/" + strings.ToLower(k.Resource) }

// kinds are those that the programs follow, from the first one on.
var kinds = []kind{
	{"Pod", "Pods"}, {"Node", "Nodes"}, {"Service", "Services"}, {"ConfigMap", "ConfigMaps"}, {"Secret", "Secrets"},
	{"Namespace", "Namespaces"}, {"ServiceAccount", "ServiceAccounts"}, {"PersistentVolume", "PersistentVolumes"},
	{"PersistentVolumeClaim", "PersistentVolumeClaims"}, {"ResourceQuota", "ResourceQuotas"}, {"Event", "Events"},
}

// main returns the source of the program.
func (p program) main() (string, error) {
	var b strings.Builder
	if err := p.source.Execute(&b, p); err != nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	return b.String(), nil
}

func source(text string) *template.Template { return template.Must(template.New("main").Parse(text)) }

var (
	lwSmall = source(`package main

import (
	"context"
	"fmt"

	"github.com/go-lw/lw"
)

type place struct {
	lw.Meta ` + "`json:\"metadata\"`" + `
	Spec    struct {
		NodeName string ` + "`json:\"nodeName\"`" + `
	} ` + "`json:\"spec\"`" + `
}

func main() {
	inf := lw.NewInformer(&lw.HTTP[*place]{URL: "http://127.0.0.1:8001/api/v1/pods"}, nil)
	lw.NewIndex(inf, (*place).GetNamespace)
	inf.AddHandler(lw.Handler[*place]{Add: func(p *place) { fmt.Println(p.Name, p.Spec.NodeName) }})
	fmt.Println(inf.Run(context.Background()))
}
`)
	lwTyped = source(`package main

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
{{- if .Clientset}}
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
{{- end}}

	"github.com/go-lw/lw"
)

func main() {
	ctx, client := context.Background(), http.DefaultClient
{{- if .Clientset}}
	config := &rest.Config{Host: "http://127.0.0.1:8001"}
	client, err := rest.HTTPClientFor(config)
	fmt.Println(err)
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	fmt.Println(err)
	fmt.Println(clientset.CoreV1().Pods("").List(ctx, metav1.ListOptions{}))
{{- end}}
{{- range .Kinds}}
	{
		inf := lw.NewInformer(&lw.HTTP[*corev1.{{.Type}}]{URL: "http://127.0.0.1:8001{{.URL}}", Client: client}, nil)
		lw.NewIndex(inf, (*corev1.{{.Type}}).GetNamespace)
		inf.AddHandler(lw.Handler[*corev1.{{.Type}}]{Add: func(o *corev1.{{.Type}}) { fmt.Println(o.Name) }})
		go inf.Run(ctx)
	}
{{- end}}
	<-ctx.Done()
}
`)
	clientGoSmall = source(`package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	ctx := context.Background()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://127.0.0.1:8001"})
	fmt.Println(err)
	factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	_, err = factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { fmt.Println(o.(*unstructured.Unstructured).GetName()) }})
	fmt.Println(err)
	factory.Start(ctx.Done())
	<-ctx.Done()
}
`)
	clientGoTyped = source(`package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	ctx := context.Background()
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: "http://127.0.0.1:8001"})
	fmt.Println(err)
	factory := informers.NewSharedInformerFactory(clientset, 0)
{{- range .Kinds}}
	_, err = factory.Core().V1().{{.Resource}}().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { fmt.Println(o.(*corev1.{{.Type}}).Name) }})
	fmt.Println(err)
{{- end}}
	factory.Start(ctx.Done())
	<-ctx.Done()
}
`)
)
