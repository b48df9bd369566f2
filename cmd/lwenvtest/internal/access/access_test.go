package access_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http/httptest"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/access"
	"github.com/go-lw/lw/lwtest"
)

// A cluster is a server that users reach over TLS.
type cluster struct {
	t      *testing.T
	server *lwtest.Server
	access *access.Access
	front  *httptest.Server
	ca     *authority
}

func newCluster(t *testing.T, o access.Options) *cluster {
	c := &cluster{t: t, ca: newAuthority(t)}
	if o.ClientCAs = x509.NewCertPool(); true {
		o.ClientCAs.AddCert(c.ca.cert)
	}
	if o.Tokens == nil {
		o.Tokens = map[string]lwtest.User{}
	}
	o.Tokens["root"] = lwtest.User{Username: "root", Groups: []string{"system:masters"}}
	var err error
	if c.access, err = access.New(o); err != nil {
		t.Fatal(err)
	}
	c.server = lwtest.NewServer(t, append(c.access.Resources(),
		lwtest.Resource{Plural: "namespaces", Kind: "Namespace", Cluster: true, Type: &corev1.Namespace{}, Status: true,
			Ends: true},
		lwtest.Resource{Plural: "pods", Kind: "Pod", Type: &corev1.Pod{}, Status: true},
		lwtest.Resource{Plural: "nodes", Kind: "Node", Cluster: true, Type: &corev1.Node{}, Status: true},
		lwtest.Resource{Plural: "secrets", Kind: "Secret", Type: &corev1.Secret{}},
		lwtest.Resource{Plural: "configmaps", Kind: "ConfigMap", Type: &corev1.ConfigMap{}},
		lwtest.Resource{Group: "apps", Plural: "deployments", Kind: "Deployment", Type: &appsv1.Deployment{},
			Status: true, Scale: true},
		c.access.ServiceAccounts(lwtest.Resource{Plural: "serviceaccounts", Kind: "ServiceAccount",
			Type: &corev1.ServiceAccount{}}),
	)...)
	for _, name := range []string{"default", "kube-system", "kube-public", "n"} {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := lwtest.Objects[*corev1.Namespace](c.server, "namespaces").Create(n)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := c.access.Start(c.server); err != nil {
		t.Fatal(err)
	}
	c.front = httptest.NewUnstartedServer(c.access.Handler(c.server))
	c.front.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	c.front.StartTLS()
	t.Cleanup(c.front.Close)
	return c
}

// config is that of a client whom nobody knows.
func (c *cluster) config() *rest.Config {
	return &rest.Config{Host: c.front.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.front.Certificate().Raw}),
	}}
}

func (c *cluster) client(config *rest.Config) *kubernetes.Clientset {
	c.t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return clients
}

// token is the client of a bearer token.
func (c *cluster) token(token string) *kubernetes.Clientset {
	config := c.config()
	config.BearerToken = token
	return c.client(config)
}

// as is the client of a user whom root impersonates.
func (c *cluster) as(u rest.ImpersonationConfig) *kubernetes.Clientset {
	config := c.config()
	config.BearerToken, config.Impersonate = "root", u
	return c.client(config)
}

func (c *cluster) user(name string, groups ...string) *kubernetes.Clientset {
	return c.as(rest.ImpersonationConfig{UserName: name, Groups: groups})
}

// certified is the client of a certificate.
func (c *cluster) certified(by *authority, name string, groups ...string) *kubernetes.Clientset {
	config := c.config()
	config.CertData, config.KeyData = by.issue(c.t, pkix.Name{CommonName: name, Organization: groups})
	return c.client(config)
}

// An authority issues the certificates of clients.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue returns a certificate and its key.
func (a *authority) issue(t *testing.T, subject pkix.Name) (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, k.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	var out, secret bytes.Buffer
	_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	_ = pem.Encode(&secret, &pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return out.Bytes(), secret.Bytes()
}
