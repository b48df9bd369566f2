package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// A suite stays as it is: envtest starts what KUBEBUILDER_ASSETS has, which "lwenvtest -- go test
// ./..." sets. Objects have the defaults and the rules of Kubernetes.
func Example() {
	dir, err := os.MkdirTemp("", "lwenvtest-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	program, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return
	}
	assets, err := installAssets(program, dir) // which "lwenvtest -assets" prints
	if err != nil {
		fmt.Println(err)
		return
	}

	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	config, err := env.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = env.Stop() }()
	c, err := client.New(config, client.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web"}}},
	}
	err = c.Create(context.Background(), pod)
	fmt.Println("restart policy:", pod.Spec.RestartPolicy, err)
	bad := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}}
	fmt.Println("without containers:", apierrors.IsInvalid(c.Create(context.Background(), bad)))
	// Output:
	// restart policy: Always <nil>
	// without containers: true
}
