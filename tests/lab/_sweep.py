import sys,torch,os,math,time
sys.path.insert(0,"src")
from anisoscope.lab import model as M
from anisoscope.lab.model import *
from anisoscope.lab.train import *
from dataclasses import replace
v,nb,w,hd,L,B,N,lr,sc,es,mf,base,obj,norm,outs,seed,wu=sys.argv[1:]
v,nb,w,hd,L,B,N,lr,sc,es,mf,base=int(v),int(nb),int(w),int(hd),int(L),int(B),int(N),float(lr),float(sc),float(es),float(mf),float(base)
ids=torch.load(f"/tmp/ids{v}.pt"); a,b=split(ids)
M.ROTARY_BASE=base
dev="cuda" if torch.cuda.is_available() else "cpu"
if dev=="cuda": torch.set_num_threads(1)
t0=time.time()
m=build(ModelConfig(v,nb,w,w//hd,L,obj=="causal",norm),int(seed))
with torch.no_grad():
    for n,p in m.named_parameters():
        if p.ndim==2 and not n.startswith("head"): p*=es/.02 if n.startswith("tokens") else sc*p.shape[1]**-.5/.02*((2*nb)**.5 if outs=="0" and "out" in n else 1)
m=m.to(dev)
c=TrainConfig(obj,N,B,L,lr,max(1,int(N*float(wu))),mask_id=0,seed=int(seed),mask_fraction=mf)
ls=train(m,a,c); t1=time.time()-t0; m.eval()
with torch.no_grad():
    h=[loss_of(m(x.to(dev)),y.to(dev)).item() for x,y in batches(b,replace(c,num_steps=20,batch_size=64,seed=9))]
k=N//4
print(" ".join(sys.argv[1:]),f"| held {sum(h)/20:.3f} | "+" ".join(f"{sum(ls[i-20:i])/20:.2f}" for i in (k,2*k,3*k,4*k)),f"{t1:.1f}s",flush=True)
