import { DevMesh } from "../../kit/dev_mesh.ts";
import { protocol } from "../../stories/protocol.ts";

protocol(DevMesh);
