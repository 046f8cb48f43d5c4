import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { protocol } from "../../stories/protocol.ts";

protocol(DevMesh);
