package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/go-lw/lw/cmd/lwenvtest/internal/access"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/early"
	"github.com/go-lw/lw/cmd/lwenvtest/internal/front"
)

// serve serves at a port of its own until ctx ends, and prints the path of a kubeconfig of a user
// who may do everything.
func serve(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("lwenvtest serve", flag.ContinueOnError)
	flags.SetOutput(stderr)
	at := flags.String("listen", "127.0.0.1:0", "the loopback `address` to listen on; port 0 is any that is free")
	path := flags.String("kubeconfig", "", "the `file` to write; without it a file in a folder that goes with the server")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("serve: unknown argument %q", flags.Arg(0))
	}
	host, _, err := net.SplitHostPort(*at)
	if err == nil {
		err = early.Loopback(host)
	}
	if err != nil {
		return fmt.Errorf("serve: -listen: %w", err)
	}
	if *path == "" {
		dir, err := os.MkdirTemp("", "lwenvtest-")
		if err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		defer os.RemoveAll(dir)
		*path = filepath.Join(dir, "kubeconfig")
	}
	l, err := net.Listen("tcp", *at)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	defer l.Close()
	ca, err := newAuthority(host)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	if err := ca.writeKubeconfig(*path, "https://"+l.Addr().String()); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	fmt.Fprintln(stdout, *path)
	// Users of such a server expect that admin, edit and view grant what they do in a cluster.
	o := front.Options{Access: access.Options{ClientCAs: ca.pool, Aggregate: true}}
	return serveFront(ctx, tls.NewListener(l, serverTLS(ca.server)), o, stderr)
}

// An authority has signed the certificates of a server and of its admin.
type authority struct {
	pem           []byte
	pool          *x509.CertPool
	server, admin tls.Certificate
}

func newAuthority(host string) (*authority, error) {
	a := &authority{pool: x509.NewCertPool()}
	root := &x509.Certificate{
		// OpenSSL takes a certificate whose issuer has its name for one that has signed itself.
		Subject: pkix.Name{CommonName: "lwenvtest-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	ca, err := sign(root, nil)
	if err != nil {
		return nil, err
	}
	a.pool.AddCert(ca.Leaf)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate[0]})
	served := &x509.Certificate{
		Subject: pkix.Name{CommonName: "lwenvtest"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", "kubernetes.default.svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ip := net.ParseIP(host); ip != nil {
		served.IPAddresses = append(served.IPAddresses, ip)
	}
	if a.server, err = sign(served, &ca); err != nil {
		return nil, err
	}
	a.admin, err = sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, &ca)
	return a, err
}

// sign completes a certificate and signs it by ca; nil: by itself.
func sign(c *x509.Certificate, ca *tls.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return tls.Certificate{}, err
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	parent, by := c, any(key)
	if ca != nil {
		parent, by = ca.Leaf, ca.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// writeKubeconfig writes the admin's kubeconfig.
func (a *authority) writeKubeconfig(path, url string) error {
	key, err := x509.MarshalPKCS8PrivateKey(a.admin.PrivateKey)
	if err != nil {
		return err
	}
	const name = "lwenvtest"
	c := clientcmdapi.NewConfig()
	c.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: a.pem}
	c.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.admin.Certificate[0]}),
		ClientKeyData:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	c.CurrentContext = name
	return clientcmd.WriteToFile(*c, path)
}
