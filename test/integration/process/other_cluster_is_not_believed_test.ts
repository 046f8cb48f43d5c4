import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { otherCluster } from "../../stories/other_cluster.ts";

otherCluster(DevMesh);
