import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { accessLog } from "../../stories/access_log.ts";

accessLog(DevMesh);
