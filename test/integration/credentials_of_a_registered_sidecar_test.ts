import { DevMesh } from "../kit/mesh/dev_mesh.ts";
import { sidecarCredentials } from "../stories/sidecar_credentials.ts";

sidecarCredentials(DevMesh);
