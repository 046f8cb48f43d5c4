import { DevMesh } from "../../kit/dev_mesh.ts";
import { accessLog } from "../../stories/access_log.ts";

accessLog(DevMesh);
