import { DevMesh } from "../../kit/dev_mesh.ts";
import { otherCluster } from "../../stories/other_cluster.ts";

otherCluster(DevMesh);
