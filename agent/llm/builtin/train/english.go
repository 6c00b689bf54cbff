package train

// Words and sentences that teach a model what is no command. In the wraps,
// {do} is a command, {did} and {doing} its past and -ing form, {who} a person
// or an animal, {x} any words.

const verbForms = `
move moved moving
go went going
drive drove driving
roll rolled rolling
walk walked walking
travel travelled travelling
advance advanced advancing
reverse reversed reversing
back backed backing
step stepped stepping
head headed heading
inch inched inching
slide slid sliding
creep crept creeping
proceed proceeded proceeding
turn turned turning
rotate rotated rotating
spin spun spinning
face faced facing
swing swung swinging
pivot pivoted pivoting
make made making
take took taking
do did doing
stop stopped stopping
halt halted halting
freeze froze freezing
stay stayed staying
stand stood standing
wait waited waiting
navigate navigated navigating
return returned returning
come came coming
find found finding
visit visited visiting
get got getting
meet met meeting
run ran running
bring brought bringing
say said saying
tell told telling
speak spoke speaking
announce announced announcing
repeat repeated repeating
shout shouted shouting
read read reading
whisper whispered whispering
check checked checking
report reported reporting
show showed showing
give gave giving
measure measured measuring
set set setting
switch switched switching
change changed changing
light lit lighting
blink blinked blinking
glow glowed glowing
dim dimmed dimming
use used using
slow slowed slowing
speed sped speeding
pick picked picking
grab grabbed grabbing
lift lifted lifting
fetch fetched fetching
collect collected collecting
grasp grasped grasping
hold held holding
put put putting
drop dropped dropping
release released releasing
let let letting
open opened opening
close closed closing
place placed placing
keep kept keeping
start started starting
play played playing
clean cleaned cleaning
feed fed feeding
water watered watering
lower lowered lowering
raise raised raising
send sent sending
call called calling
dock docked docking
charge charged charging
leave left leaving
follow followed following
push pushed pushing
pull pulled pulling
carry carried carrying
lock locked locking
unlock unlocked unlocking
`

const plainWords = `hello there friend how are you today good morning everyone dinner is ready the robot will be back soon please watch your step thank you
for coming i am on my way welcome home door open now time to go we need help in a minute be careful nice work everybody lunch has been served here comes our
train music play tomorrow night happy birthday see later very well done my dear not yet never mind it was great this that they them what when who where why`

const nouns = `cup ball box bottle toy block cube pen book apple can screwdriver sock brick phone glass plate spoon fork knife bowl bag hat shoe shirt towel
pillow blanket remote key wallet lamp plant flower stone stick rope ring coin card paper letter magazine basket bucket brush broom sponge soap candle clock camera
cable battery charger hammer wrench nail screw tape marker pencil eraser ruler doll bear car truck train plane boat puzzle game orange banana lemon carrot egg
bread cheese milk water juice tea coffee sugar salt garage office bathroom cellar attic balcony garden porch stairs window table desk sofa couch fridge oven sink
shelf cupboard closet workshop laboratory station corner entrance exit gate yard pantry library studio nursery lobby base start room corridor mailbox medicine
umbrella package parcel tray mug jar lid napkin laptop tablet headphones slipper glove scarf jacket dog cat`

const adjectives = `red green blue white yellow black small big large old new round square wooden metal plastic empty full heavy light soft hard clean dirty
broken front back left right upper lower main second other first guest`

// otherVerbs are what people want that is not in a robot's tools, unless it is.
const otherVerbs = `write draw paint cook bake wash fold iron sew build fix repair buy sell order email phone teach explain describe define spell translate
calculate count solve compare search google watch record film photograph dance jump climb swim fly sleep think guess imagine kiss hug marry hit kick throw
catch hide burn cut slice peel boil fry mix pour drink eat taste smell feed water clean vacuum mop sweep dust polish lock open close book rent pay save delete
print scan copy download install update heat cool freeze empty fill wrap pack unpack decorate charge wake train tickle pet walk ride invite greet thank scold`

const people = `anna tom peter mary john lisa max paul emma sara lucas nina oscar clara felix julia david laura simon maria grandma grandpa mum dad mom alice bob
charlie frank karen mike susan kevin sophie leo mia noah alexa siri sweetheart honey buster rex kids children everybody guys sir waiter doctor driver captain`

const lines = `
dinner is ready
do not enter
watch out
please do not move
i am not a toy
never give up
stop it
hello world
good night everyone
the door is open
the door is not locked
turn left at the corner
come to the kitchen
welcome to our home
the battery is low
it is time for bed
thank you and goodbye
i will be back
where are you
what is your name
how are you today
happy birthday to you
don't worry
there is no milk left
`

// wraps turn a command into something that must not be done.
const wraps = `
do not {do}
don't {do}
please don't {do}
never {do}
please do not {do} again
you must not {do}
you don't have to {do}
you do not need to {do}
i do not want you to {do}
no need to {do}
it is not necessary to {do}
i didn't say {do}
did you {do}
did you {do} already
have you {did}
have you ever {did}
why did you {do}
when did you {do}
who told you to {do}
how do i {do}
how does one {do}
how do you {do}
why would anyone {do}
what happens if you {do}
what happens when you {do}
what would happen if i {do}
do you like to {do}
do you want to {do}
do you know how to {do}
is it safe to {do}
is it hard to {do}
is it possible to {do}
should i {do}
should we {do}
may i {do}
can i {do}
can {who} {do}
could {who} {do}
will {who} {do}
does {who} ever {do}
did {who} {do}
how long does it take to {do}
how often do you {do}
what does {do} mean
what do you say when people {do}
are you able to {do}
are you going to {do}
are you {doing}
were you {doing}
is {who} {doing}
{who} {did}
yesterday {who} {did}
{who} {did} yesterday
{who} {did} last week
last night {who} {did}
i {did}
i {did} this morning
we {did} together
you {did}
you {did} too much
you already {did}
the robot {did}
then {who} {did}
{who} is {doing}
{who} was {doing}
{who} likes {doing}
{who} wants to {do}
{who} needs to {do}
{who} has to {do}
{who} can {do}
{who} will {do}
{who} used to {do}
{who} likes to {do}
{who} tried to {do}
{who} always forgets to {do}
{who} told me to {do}
{who} told {who} to {do}
{who} asked me to {do}
{who} said {do}
{who} said to {do}
{who} shouted {do}
she said {do}
he told me to {do}
they wanted us to {do}
somebody yelled {do}
i told {who} to {do}
i asked {who} to {do}
i have to {do}
i need to {do}
i want to {do}
i like to {do}
i will {do}
i will {do} tomorrow
i am going to {do}
i am {doing}
i was {doing}
i was told to {do}
i forgot to {do}
i might {do}
i think i should {do}
i wish i could {do}
let me {do}
we have to {do}
we should {do} some day
we are going to {do}
we were {doing}
the sign says {do}
the manual says {do}
the book says {do}
the song goes {do}
in the film they say {do}
it says here {do}
the word {do} is funny
{do} is what she said
{do} is what he always says
{doing} is fun
{doing} is dangerous
{doing} takes time
{doing} was a mistake
i hate {doing}
i love {doing}
i dreamed of {doing}
thank you for {doing}
thanks for {doing}
sorry for {doing}
remember when you {did}
remember when we {did}
after {who} {did} it rained
before i {do} i drink coffee
if i {do} will it break
if {who} {did} i would know
it would be nice to {do} some day
{who} {do}
what would {who} {do}
what would you {do}
what do i need to {do}
am i allowed to {do}
are we {doing}
is it time to {do}
where would you {do}
which robot can {do}
{who} always says {do}
they say {do}
{who} {did} and {who} laughed
{who} {did} and fell
i'll {do} and then i will sleep
i'll {do}
we'll {do}
i'm {doing}
{who} please {do}
hey {who} {do}
{who} could you {do}
{who} can you {do}
ok {who} {do}
`

const wrapsHeld = `
you should not {do}
i never asked you to {do}
can anybody {do}
why were you {doing}
my father {did}
she {did} last year
{who} and i {did}
who wants to {do}
i am tired of {doing}
he is {doing}
the teacher told us to {do}
i would never {do}
there is no reason to {do}
i saw {who} {doing}
`

// chat is small talk and questions about the world.
const chat = `
what is the capital of {x}
what is the capital of france
what's the capital of {x}
which city is the capital of {x}
tell me a joke
tell me a story
tell me something about {x}
who won the game in {x}
who won the world cup
who is the president of {x}
write a poem about {x}
what do you think of {x}
what do you think about {x}
how old are you
how old is {who}
how are you
how was your day
sing a song about {x}
sing me a song
translate {x} to french
book a flight to {x}
order a pizza
who is {x}
who are you
who made you
what time is it
what time is it in {x}
what day is it
how do i cook {x}
solve this equation
do you like {x}
do you love me
why is the sky blue
why is {x} so expensive
buy some {x}
explain {x} to me
what is {x}
what are {x}
what is your name
what is your favorite {x}
send an email to {who}
call {who}
text {who} that i am late
good morning
good night
good evening everyone
hello
hello there
hi
hey
bye
see you later
thank you
thanks a lot
you're welcome
never mind
forget it
nothing
yes
no
maybe
okay
ok
well
hmm
um
that's right
that is right
all right
that's all
i see
right
left
i'm hungry
i am tired
i am cold
i am {x}
i have a {x}
i like {x}
i bought a {x}
i lost my {x}
where did i put my {x}
where is {who}
where is my {x}
the {x} is broken
the {x} is in the {x}
the {x} is on the table
the {x} is red
there is a {x} in the kitchen
there is somebody at the door
my {x} is in the bedroom
it is cold in the hall
it is raining
it's too loud in here
{who} is in the kitchen
{who} is at home
{who} lives in {x}
{who} has a {x}
look at the {x}
listen
wow
oh no
great job
good robot
bad robot
well done
nice
you are funny
you are very slow
you're so fast
you look great
that was fast
that was quick
that is too {x}
my left foot hurts
turn of the century
the left one is mine
the right answer is {x}
the kitchen is dirty
the kitchen is clean
the bedroom is nice
i was in the kitchen
we were in the living room
the lamp is nice
the light is too bright
the battery of my phone is new
the bus stop is far
the speed limit is fifty
moving house is stressful
two meters is a lot
ninety degrees is hot
forward is a direction
set up a meeting with {who}
set an alarm for seven
set a timer for {x}
remind me to buy {x}
play some music
play {x}
turn up the music
add {x} to the list
open the window
close the door
lock the door
clean the {x}
make me a sandwich
make coffee
wash the {x}
feed the {x}
water the plants
what can you do
what did you say
can you hear me
can you help me
can you dance
are you there
are you a robot
are you listening
are you happy
do you sleep
do you remember me
i am talking to {who}
i was not talking to you
not you
one two three
testing testing
{x}
{x} {x}
the {x} {x}
`

const chatHeld = `
what is the weather in {x}
give me a recipe for {x}
can you explain {x}
how far away is the moon
i went shopping with {who}
the cat sleeps on the {x}
do you believe in {x}
that's what {who} told me
my {x} fell down
could you write a letter to {who}
`
