import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { portInUse } from "../../stories/port_in_use.ts";

portInUse(DevMesh);
