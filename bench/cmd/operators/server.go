package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// A server is a process of lwenvtest.
type server struct {
	cmd        *exec.Cmd
	kubeconfig string
	client     *kubernetes.Clientset
	dynamic    *dynamic.DynamicClient
	mapper     *restmapper.DeferredDiscoveryRESTMapper
}

// newServer starts lwenvtest, whose kubeconfig is written to dir.
func newServer(ctx context.Context, lwenvtest, dir string) (*server, error) {
	s := &server{kubeconfig: filepath.Join(dir, "kubeconfig")}
	s.cmd = exec.CommandContext(ctx, lwenvtest, "serve", "-kubeconfig", s.kubeconfig)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("lwenvtest has written no kubeconfig: %w", err), s.cmd.Wait())
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	s.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.client.Discovery()))
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		if err == nil {
			return s, nil
		}
		if time.Since(begun) > time.Minute {
			return nil, err
		}
	}
}

func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait() // it serves nobody any more
}

// apply creates the objects of text. It waits until their kinds are served.
func (s *server) apply(ctx context.Context, text string) error {
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := d.Decode(obj); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(obj.Object) == 0 {
			continue
		}
		if err := s.create(ctx, obj); err != nil {
			return fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// applyFiles is apply of the text of each file.
func (s *server) applyFiles(ctx context.Context, files []string) error {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := s.apply(ctx, string(data)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

func (s *server) create(ctx context.Context, obj *unstructured.Unstructured) error {
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		kind := obj.GroupVersionKind()
		mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil {
			_, err = s.dynamic.Resource(mapping.Resource).Namespace(obj.GetNamespace()).Create(ctx, obj, metav1.CreateOptions{})
		}
		if err == nil || !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) || time.Since(begun) > time.Minute {
			return err
		}
		s.mapper.Reset()
	}
}

// has reports whether all paths are there, of the object with that name.
func (s *server) has(ctx context.Context, name string, paths []string) bool {
	for _, path := range paths {
		if s.client.RESTClient().Get().AbsPath(strings.ReplaceAll(path, "NAME", name)).Do(ctx).Error() != nil {
			return false
		}
	}
	return true
}

const team = "team"

// fill makes the objects of the attack.
func (a attack) fill(ctx context.Context, s *server) error {
	if err := s.apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: "+team+"}}"); err != nil {
		return err
	}
	for i := range a.n {
		if _, err := s.attacked(a).Create(ctx, a.object(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// storm changes a quarter of the objects.
func (a attack) storm(ctx context.Context, s *server) error {
	for range a.n / 4 {
		if _, err := s.attacked(a).Update(ctx, a.object(rand.IntN(a.n)), metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) attacked(a attack) dynamic.ResourceInterface {
	return s.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: a.resource}).Namespace(team)
}

// object returns object i, with so many bytes that do not pack.
func (a attack) object(i int) *unstructured.Unstructured {
	noise := make([]byte, a.size*3/4)
	r := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(rand.IntN(256)), byte(rand.IntN(256))})
	_, _ = r.Read(noise) // it has no error
	kind := map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}[a.resource]
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": team, "name": fmt.Sprint("x-", i)},
		"data": map[string]any{"text": base64.StdEncoding.EncodeToString(noise)},
	}}
}
