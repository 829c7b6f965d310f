// Asks an estimator with the client of Karmada's scheduler, over mutual TLS.
//
// The questions are a JSON array on the standard input, and the answers one on the standard output.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	estimatorclient "github.com/karmada-io/karmada/pkg/estimator/client"
	estimatorservice "github.com/karmada-io/karmada/pkg/estimator/service"
	"github.com/karmada-io/karmada/pkg/util/grpcconnection"
)

// question has the fields of one of the three requests, in the JSON of Karmada's API.
type question struct {
	ReplicaRequirements *workv1alpha2.ReplicaRequirements `json:"replicaRequirements"`
	Components          []workv1alpha2.Component          `json:"components"`
	Resource            *workv1alpha2.ObjectReference     `json:"resource"`
	AssumedWorkloads    []estimatorclient.AssumedWorkload `json:"assumedWorkloads"`
	ThresholdSeconds    int64                             `json:"thresholdSeconds"`
}

type answer struct {
	Number int32  `json:"number"`
	Error  string `json:"error,omitempty"`
}

func main() {
	address := flag.String("address", "", "host and port of the estimator")
	name := flag.String("cluster", "", "name of the cluster")
	folder := flag.String("keys", "", "folder with ca.crt, admin.crt and admin.key")
	flag.Parse()
	if err := run(*address, *name, *folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(address, name, folder string) error {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		return err
	}
	config := grpcconnection.ClientConfig{
		ServerAuthCAFile: filepath.Join(folder, "ca.crt"),
		CertFile:         filepath.Join(folder, "admin.crt"),
		KeyFile:          filepath.Join(folder, "admin.key"),
	}
	connection, err := config.DialWithTimeOut([]string{address}, 30*time.Second)
	if err != nil {
		return err
	}
	cache := estimatorclient.NewSchedulerEstimatorCache()
	cache.AddCluster(name, connection, estimatorservice.NewEstimatorClient(connection))
	estimator := estimatorclient.NewSchedulerEstimator(cache, 30*time.Second)
	answers := make([]answer, len(questions))
	for i, each := range questions {
		number, err := ask(estimator, name, each)
		answers[i].Number = number
		if err != nil {
			answers[i].Error = err.Error()
		}
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func ask(estimator *estimatorclient.SchedulerEstimator, name string, each question) (int32, error) {
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	clusters := []*clusterv1alpha1.Cluster{cluster}
	assumed := map[string][]estimatorclient.AssumedWorkload{name: each.AssumedWorkloads}
	ctx := context.Background()
	switch {
	case each.Resource != nil:
		threshold := time.Duration(each.ThresholdSeconds) * time.Second
		found, err := estimator.GetUnschedulableReplicas(ctx, []string{name}, each.Resource, threshold)
		if err != nil {
			return 0, err
		}
		return found[0].Replicas, nil
	case len(each.Components) > 0:
		found, err := estimator.MaxAvailableComponentSets(ctx, estimatorclient.ComponentSetEstimationRequest{
			Clusters:         clusters,
			Components:       each.Components,
			Namespace:        "shop",
			AssumedWorkloads: assumed,
		})
		if err != nil {
			return 0, err
		}
		return found[0].Sets, nil
	default:
		found, err := estimator.MaxAvailableReplicas(ctx, estimatorclient.ReplicaEstimationRequest{
			Clusters:            clusters,
			ReplicaRequirements: each.ReplicaRequirements,
			AssumedWorkloads:    assumed,
		})
		if err != nil {
			return 0, err
		}
		return found[0].Replicas, nil
	}
}
