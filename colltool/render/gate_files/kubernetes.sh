# an image with nccl-tests, built with MPI=1, in NCCL_TESTS, and sshd
IMAGE=${IMAGE:?an image with nccl-tests}
NCCL_TESTS=${NCCL_TESTS:-/opt/nccl-tests/build}
kubectl apply -f - <<END
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: colltool-preflight
spec:
  slotsPerWorker: @gpus@
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
            - name: launcher
              image: $IMAGE
              command: [bash, -ec]
              args:
                - |
@runs@
    Worker:
      replicas: @hosts@
      template:
        spec:
          containers:
            - name: worker
              image: $IMAGE
              resources:
                limits:
                  nvidia.com/gpu: @gpus@
END
kubectl wait --for=condition=Succeeded --timeout=30m mpijob/colltool-preflight
kubectl logs --tail=-1 -l training.kubeflow.org/job-name=colltool-preflight,training.kubeflow.org/job-role=launcher >"$log"
kubectl delete mpijob colltool-preflight
