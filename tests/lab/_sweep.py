import sys,torch,os,math
torch.set_num_threads(1)
sys.path.insert(0,"src")
from anisoscope.lab import model as M
from anisoscope.lab.model import *
from anisoscope.lab.train import *
from dataclasses import replace
v,nb,w,hd,L,B,N,lr,sc,pos,mf,obj=sys.argv[1:]
v,nb,w,hd,L,B,N,lr,sc,mf=int(v),int(nb),int(w),int(hd),int(L),int(B),int(N),float(lr),float(sc),float(mf)
ids=torch.load(f"/tmp/ids{v}.pt"); a,b=split(ids)
dev="cuda" if torch.cuda.is_available() else "cpu"
inv=10000**(-torch.arange(0,hd,2).float()/hd); an=torch.outer(torch.arange(L).float(),inv)
C,S=an.cos().to(dev),an.sin().to(dev)
def rot(x):
    y,z=x.chunk(2,-1); return torch.cat([y*C-z*S,y*S+z*C],-1)
sd=F.scaled_dot_product_attention
if pos=="rope": F.scaled_dot_product_attention=lambda q,k,v,**kw: sd(rot(q),rot(k),v,**kw)
m=build(ModelConfig(v,nb,w,w//hd,L,obj=="causal"),0)
with torch.no_grad():
    for n,p in m.named_parameters():
        if p.ndim==2 and not n.startswith(("tokens","positions","head")): p*=sc
    if pos=="rope": m.positions.weight.zero_(); m.positions.weight.requires_grad_(False)
    if pos.startswith("sin"):
        f=10000**(-torch.arange(0,w,2).float()/w); t=torch.outer(torch.arange(L).float(),f)
        m.positions.weight.copy_(torch.cat([t.sin(),t.cos()],1)*0.02*2**.5*float(pos[3:]))
m=m.to(dev)
c=TrainConfig(obj,N,B,L,lr,max(1,N//10),mask_id=0,mask_fraction=mf)
ls=train(m,a,c); m.eval()
with torch.no_grad():
    h=[loss_of(m(x.to(dev)),y.to(dev)).item() for x,y in batches(b,replace(c,num_steps=20,batch_size=64,seed=9))]
k=N//4
print(" ".join(sys.argv[1:]),f"| held {sum(h)/20:.3f} | "+" ".join(f"{sum(ls[i-20:i])/20:.2f}" for i in (k,2*k,3*k,4*k)),flush=True)
